package simd

import "testing"

// TestLeadIsWithinATile: a lead of no row would fetch what is being read, and one of a
// tile or more what is not listed.
func TestLeadIsWithinATile(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		for e := F32; e < NumElems; e++ {
			for _, dim := range []int{1, 7, 64, 128, 576, 1 << 20} {
				for rows := 1; rows <= 128; rows++ {
					if lead := Lead(e, dim, rows); lead < 1 || lead >= TileKeys {
						t.Fatalf("%v, %d rows of %d elements: %d keys", e, rows, dim, lead)
					}
				}
			}
		}
	})
}

// TestLeadOfFurtherPasses: sums that come back to a row in further passes are led by
// no less than those that read it once.
func TestLeadOfFurtherPasses(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		for e := F32; e < NumElems; e++ {
			for rows := 1; rows < 16; rows++ {
				if a, b := Lead(e, 128, rows), Lead(e, 128, rows+1); a > b {
					t.Errorf("%v: %d rows are led by %d keys, %d by %d", e, rows, a, rows+1, b)
				}
			}
		}
	})
}

// TestSweepsAreWholeTiles: of a length that the group and the types decide, and no
// longer than a softmax adds up without losing more than sums of a tile's values do.
func TestSweepsAreWholeTiles(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		for k := F32; k < NumElems; k++ {
			for v := F32; v < NumElems; v++ {
				for group := 1; group <= 2000; group++ {
					n := SweepKeys(k, v, group)
					if n < TileKeys || n%TileKeys != 0 || n > TileKeys*lanes() {
						t.Fatalf("%v and %v, group %d: %d keys", k, v, group, n)
					}
					if n > TileKeys && (n*group > sweepScores || k > BF16 || v > BF16) {
						t.Fatalf("%v and %v, group %d: %d keys are more than a tile", k, v, group, n)
					}
				}
			}
		}
	})
}
