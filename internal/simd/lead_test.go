package simd

import "testing"

// TestLeadIsListed: a lead of no row would fetch what is being read, and one of two
// tiles or more what is not listed. Floats stay within a tile, integers beyond one.
func TestLeadIsListed(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		for e := F32; e < NumElems; e++ {
			for _, dim := range []int{1, 7, 64, 128, 576, 1 << 20} {
				for rows := 1; rows <= 128; rows++ {
					lead, beyond := Lead(e, dim, rows), IntegerKernels(e).Takes(dim)
					if lead < 1 || lead >= 2*TileKeys || (lead > TileKeys) != beyond {
						t.Fatalf("%v, %d rows of %d elements: %d keys, of integers: %v", e, rows, dim, lead, beyond)
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

// TestSweepsAreWholeTiles: of a length that the group decides, and no longer than a
// softmax adds up without losing more than sums of a tile's values do.
func TestSweepsAreWholeTiles(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		for group := 1; group <= 2000; group++ {
			n := SweepKeys(group)
			if n < TileKeys || n%TileKeys != 0 || n > TileKeys*lanes() {
				t.Fatalf("group %d: %d keys", group, n)
			}
			if n > TileKeys && n*group > sweepScores {
				t.Fatalf("group %d: %d keys are more than a tile, and have more than %d scores", group, n, sweepScores)
			}
		}
	})
}
