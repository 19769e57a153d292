package cpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/flashdec/flashdec/attn"
)

// TestMergesAreTheLaws: what a worker merges is what attn.Merge makes of it, be states
// few or many, empty, NaN or a sink's, and where the first is overwritten: to the bit
// as far as attn.Merge takes all at once, too.
func TestMergesAreTheLaws(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	const dim = 37
	for _, n := range []int{0, 1, 2, 3, 8, 64, 65, 200} {
		for _, kind := range []string{"whole", "some empty", "all empty", "NaN", "a sink", "in place", "NaN weight"} {
			w := &worker{list: make([]attn.State[float32], n), weight: make([]float64, n+1), averaged: make([][]float32, n+1)}
			for b := range w.list {
				o := make([]float32, dim)
				for i := range o {
					o[i] = float32(rng.NormFloat64())
				}
				w.list[b] = attn.State[float32]{M: 9 * rng.NormFloat64(), L: 1 + rng.Float64(), O: o}
				if kind == "all empty" || kind == "some empty" && b%3 == 1 {
					o[0] = float32(math.NaN()) // never read
					w.list[b].M, w.list[b].L = negInf, 0
				}
			}
			if n > 0 && kind == "NaN" {
				w.list[n-1].O[dim-1] = float32(math.NaN())
			}
			if n > 0 && kind == "NaN weight" {
				w.list[0].L = math.NaN() // alone, it keeps its o
			}
			if kind == "a sink" {
				w.list = append(w.list, attn.SinkState[float32](0.5))
			}
			want, got := attn.Empty[float32](dim), attn.Empty[float32](dim)
			attn.Merge(&want, w.list...)
			if n > 0 && kind == "in place" {
				got.O = w.list[0].O
			}
			w.mergeInto(&got)
			tolerance := 0.0
			if len(w.list) > 64 {
				tolerance = 1e-6
			}
			same := func(a, b float64) bool {
				return a == b || a != a && b != b || math.Abs(a-b) <= tolerance*max(math.Abs(b), 1)
			}
			if !same(got.M, want.M) || !same(got.L, want.L) {
				t.Errorf("%d states, %s: m %v and l %v, want %v and %v", n, kind, got.M, got.L, want.M, want.L)
			}
			for i := range want.O {
				if !same(float64(got.O[i]), float64(want.O[i])) {
					t.Fatalf("%d states, %s: element %d is %v, want %v", n, kind, i, got.O[i], want.O[i])
				}
			}
		}
	}
}
