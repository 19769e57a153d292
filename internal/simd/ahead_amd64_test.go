package simd

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestWhatIsFetchedChangesNothing: rows one behind the other are fetched with those that are read where
// what is ahead lies so, too, and otherwise in some other way; results are the same, bit for bit, of
// keys and of values, of one tile and of several.
func TestWhatIsFetchedChangesNothing(t *testing.T) {
	requireLevel(t, AVX512)
	rng := rand.New(rand.NewPCG(7, 8))
	here := inHalves
	t.Cleanup(func() { inHalves = here })
	for _, halves := range []bool{true, false} {
		inHalves = halves
		for _, e := range []Elem{F32, F16, BF16, E5M2} {
			for _, dim := range []int{32, 64, 128, 160, 33} {
				for _, keys := range []int{1, 2, 5, 64, 130} {
					rows := 1 + rng.IntN(MaxRows)
					size := e.RowBytes(dim)
					data, off := make([]byte, 2*keys*size), make([]int, 2*keys)
					for j := range off {
						off[j] = j * size
						Narrow(data[off[j]:], e, randomFloats(rng, dim))
					}
					q, p := randomFloats(rng, rows*dim), randomFloats(rng, rows*keys)
					tile, alpha := Tile{data, off[:keys]}, make([]float32, rows)
					step := func(ahead Ahead) (s, o []float32) {
						s, o = make([]float32, rows*keys), make([]float32, rows*dim)
						Scores(e)(s, keys, q, rows, dim, tile, ahead)
						Accumulate(e)(o, rows, dim, p, keys, alpha, tile, ahead)
						return s, o
					}
					s, o := step(Ahead{})
					apart := slices.Clone(off[keys:])
					slices.Reverse(apart)
					for name, list := range map[string][]int{"behind": off[keys:], "the same": off[:keys], "fewer": off[keys : 2*keys-keys/2], "apart": apart} {
						t.Run(fmt.Sprintf("halves=%v/%v/dim=%d/keys=%d/rows=%d/%s", halves, e, dim, keys, rows, name), func(t *testing.T) {
							gotS, gotO := step(Ahead{data, list, size})
							if !slices.Equal(gotS, s) {
								t.Errorf("scores %v, want %v", gotS, s)
							}
							if !slices.Equal(gotO, o) {
								t.Errorf("sums %v, want %v", gotO, o)
							}
						})
					}
				}
			}
		}
	}
}
