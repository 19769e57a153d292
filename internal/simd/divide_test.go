//go:build unix

package simd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// TestDivide: every level divides as plain Go does, to the bit, tells what is not
// finite wherever it stands, and touches nothing beside the row.
func TestDivide(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	eachLevel(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(31, 32))
		for n := range 70 {
			a, got, want := guardedFloats(t, n, true), guardedFloats(t, n, n%2 == 0), make([]float32, n)
			for i := range a {
				a[i] = float32(rng.NormFloat64())
			}
			check := func(l float32, finite bool) {
				t.Helper()
				divideGeneric(want, a, l)
				if Divide(got, a, l) != finite {
					t.Errorf("%d elements by %v: finite is %t, want %t: %v", n, l, !finite, finite, got)
				}
				sameBits(t, fmt.Sprintf("%d elements by %v", n, l), got, want)
			}
			for _, l := range []float32{1, 3, 1e-20, 1e-45, 3e38, inf} {
				check(l, divideGeneric(want, a, l))
			}
			for i := range a {
				for _, x := range []float32{inf, -inf, nan, 3e38} {
					old := a[i]
					a[i] = x
					check(0.5, false)
					check(4, x == 3e38)
					a[i] = old
				}
			}
		}
	})
}
