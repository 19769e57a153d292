package simd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// TestScales: every level does what plain Go does, to the bit, and touches
// nothing beside it.
func TestScales(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	special := []float32{0, math.Float32frombits(NegZero), 1, -1, 1e-38, 1e-45, 3e38, inf, -inf, nan}
	eachLevel(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(21, 22))
		draw := func() float32 {
			if rng.IntN(2) == 0 {
				return special[rng.IntN(len(special))]
			}
			return float32(rng.NormFloat64())
		}
		for _, rows := range []int{0, 1, 3, 8} {
			for keys := range TileKeys + 1 {
				const stride = TileKeys + 3
				s, x := make([]float32, 9*stride), make([]float32, keys)
				for i := range s {
					s[i] = draw()
				}
				for i := range x {
					x[i] = draw()
				}
				for _, unit := range []float32{1, 0x1p96, 0x1p-13} {
					got, want := append([]float32(nil), s...), append([]float32(nil), s...)
					ScaleScores(got, stride, rows, x)
					scaleScoresGeneric(want, stride, rows, x)
					sameBits(t, fmt.Sprintf("scores: %d rows of %d keys", rows, keys), got, want)
					got, want = append([]float32(nil), s...), append([]float32(nil), s...)
					ScaleWeights(got, stride, rows, x, unit)
					scaleWeightsGeneric(want, stride, rows, x, unit)
					sameBits(t, fmt.Sprintf("weights: %d rows of %d keys", rows, keys), got, want)
				}
			}
		}
	})
}

// sameBits compares bits; a NaN is any NaN.
func sameBits(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if got[i] != got[i] && want[i] != want[i] {
			continue
		}
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: element %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}
