//go:build unix

package simd

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestNormEqualsPlain: every level and length, in place and not, with NaN where NaN is, and nothing read or written beside
// the arrays, which end, or begin, where memory does.
func TestNormEqualsPlain(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(23, 24))
		for n := range 70 {
			for _, atEnd := range []bool{true, false} {
				x, y, w := guardedFloats(t, n, atEnd), guardedFloats(t, n, atEnd), guardedFloats(t, n, atEnd)
				for i := range x {
					x[i], y[i], w[i] = float32(rng.NormFloat64()), float32(rng.NormFloat64()), float32(rng.NormFloat64())
				}
				want, size := 0.0, make([]float32, n)
				for _, v := range x {
					want += float64(v) * float64(v)
				}
				if got := Squares(x); !(math.Abs(got-want) <= 1e-14*want) {
					t.Errorf("%d elements: the sum of squares is %v, want %v", n, got, want)
				}
				if n > 2 {
					x[n/2], y[n-1] = float32(math.NaN()), float32(math.Inf(1))
				}
				copy(size, y)
				addGeneric(size, x)
				Add(y, x)
				sameBits(t, "sums", y, size)
				timesGeneric(size, x, w, 1.7)
				Times(y, x, w, 1.7)
				sameBits(t, "products", y, size)
				Times(x, x, w, 1.7)
				sameBits(t, "products in place", x, size)
			}
		}
	})
}
