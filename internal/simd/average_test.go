//go:build unix

package simd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// TestAverage: every level averages as plain Go does, to the bit, in place, too, and
// touches nothing beside the rows.
func TestAverage(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(41, 42))
		for dim := range 75 {
			for _, states := range []int{0, 1, 2, 3, 9, 64} {
				weight, o := make([]float64, states), make([][]float32, states)
				for b := range o {
					weight[b] = math.Exp(3 * rng.NormFloat64())
					o[b] = guardedFloats(t, dim, (b+dim)%2 == 0)
					for i := range o[b] {
						o[b][i] = float32(rng.NormFloat64())
					}
				}
				if dim > 0 && states > 2 {
					o[1][dim/2], o[2][dim-1] = float32(math.NaN()), 3e38
				}
				got, want := guardedFloats(t, dim, dim%2 == 0), make([]float32, dim)
				averageGeneric(want, weight, o, 1.7, 0)
				Average(got, weight, o, 1.7)
				sameBits(t, fmt.Sprintf("%d states of %d elements", states, dim), got, want)
				if states > 0 {
					Average(o[0], weight, o, 1.7)
					sameBits(t, fmt.Sprintf("%d states of %d elements in place", states, dim), o[0], want)
				}
			}
		}
	})
}
