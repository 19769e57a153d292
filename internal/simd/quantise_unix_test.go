//go:build unix

package simd

import "testing"

// TestQuantiseStaysWithinItsRows: nothing is read or written beyond either end.
func TestQuantiseStaysWithinItsRows(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		for _, e := range quantisedTypes {
			for _, atEnd := range []bool{false, true} {
				for n := 1; n < 70; n++ {
					x := guardedFloats(t, n, atEnd)
					x[n/2] = 3
					Quantise(guarded(t, e.RowBytes(n), atEnd), e, x, Largest(x))
				}
			}
		}
	})
}
