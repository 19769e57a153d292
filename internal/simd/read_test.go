package simd

import (
	"math/rand/v2"
	"testing"
)

// ReadSum is the xor of all words at every level, at any length and alignment.
func TestReadSum(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	data := make([]byte, 9000)
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	atLevels(t, func(t *testing.T) {
		for range 300 {
			at := rng.IntN(len(data))
			part := data[at : at+rng.IntN(len(data)-at+1)]
			if got, want := ReadSum(part), readSumGeneric(part); got != want {
				t.Fatalf("%d bytes at %d: %#x, want %#x", len(part), at, got, want)
			}
		}
	})
}
