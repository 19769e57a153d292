package simd

import (
	"slices"
	"testing"
)

// TestLeadIsListed: a lead of no row would fetch what is being read, and one of two
// tiles or more what is not listed. Integers are led by more than one, and nobody by more
// than an old second cache takes.
func TestLeadIsListed(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		for e := F32; e < NumElems; e++ {
			for _, dim := range []int{1, 7, 64, 128, 576, 1 << 20} {
				for rows := 1; rows <= 128; rows++ {
					lead, integers := Lead(e, dim, rows), IntegerKernels(e).Takes(dim)
					if lead < 1 || lead >= 2*TileKeys || integers && lead <= TileKeys {
						t.Fatalf("%v, %d rows of %d elements: %d keys, of integers: %v", e, rows, dim, lead, integers)
					}
					if lead > leadRows && lead*e.RowBytes(dim) > leadMost {
						t.Fatalf("%v, %d rows of %d elements: %d keys, %d bytes", e, rows, dim, lead, lead*e.RowBytes(dim))
					}
				}
			}
		}
	})
}

// TestLeadOfScores: in long runs keys are led as elsewhere; or, where they are scored one after the other, not at all; or, one
// row's or two's, by a few rows.
func TestLeadOfScores(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		for e := F32; e < NumElems; e++ {
			for _, dim := range []int{64, 128, 576} {
				for rows := 1; rows <= MaxRows; rows++ {
					lead, alone := LeadScores(e, dim, rows), e == I8 && dim == 128 && rows == 1 && IntegerKernels(e) != nil
					few := useAVX512 && rows == 1 && readsLonger(e) && dim <= registerSums
					if lead != Lead(e, dim, rows) && !(inHalves && (alone && lead == 0 || few && lead == leadRows)) || inHalves && (alone && lead != 0 || few && lead != leadRows) {
						t.Errorf("%v, %d rows of %d elements: keys are led by %d, elsewhere by %d", e, rows, dim, lead, Lead(e, dim, rows))
					}
				}
			}
		}
	})
}

// TestLeadOfSums: values are led as keys are; or, one row's of bytes, not at all; or, where
// registers hold their sums, by a few rows; or, one row's of 8-bit floats that are long and summed
// in pairs, by twice as many.
func TestLeadOfSums(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		for e := F32; e < NumElems; e++ {
			for _, dim := range []int{64, 128, 576} {
				for rows := 1; rows <= MaxRows; rows++ {
					lead, alone := LeadSums(e, dim, rows), e == I8 && rows == 1 && IntegerKernels(e).Takes(dim)
					if (e == E4M3 || e == E5M2) && AccumulateRounded(e) != nil && rows == 1 && dim >= 128 {
						if lead != 2*leadRows {
							t.Errorf("%v, a row of %d elements: values are led by %d keys, want %d", e, dim, lead, 2*leadRows)
						}
						continue
					}
					few := rows <= 4 && rows*dim <= registerSums && readsLonger(e)
					if lead != Lead(e, dim, rows) && !(inHalves && (alone && lead == 0 || few && lead == leadRows)) {
						t.Errorf("%v, %d rows of %d elements: values are led by %d keys, keys by %d", e, rows, dim, lead, Lead(e, dim, rows))
					}
				}
			}
		}
	})
}

// TestLeadOfTilesReadInParts: AVX2's sums of several rows read a part of all values
// first, so that none of a tile may be left to fetch while its own kernel runs.
func TestLeadOfTilesReadInParts(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		if Level() != AVX2 {
			return
		}
		for e := F32; e < NumElems; e++ {
			for rows := 2; rows <= MaxRows; rows++ {
				if lead := Lead(e, 128, rows); lead <= TileKeys {
					t.Errorf("%v, %d rows: %d keys, want more than a tile", e, rows, lead)
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
			if n < TileKeys || n%TileKeys != 0 || n > TileKeys*sweepTiles() {
				t.Fatalf("group %d: %d keys", group, n)
			}
			if n > TileKeys && n*group > sweepScores(group) {
				t.Fatalf("group %d: %d keys are more than a tile, and have more than %d scores", group, n, sweepScores(group))
			}
		}
	})
}

// TestAheadIsSharedOut: what is ahead of a sweep goes with its tiles in even shares, each of it once and in order, however many
// keys an offset stands for.
func TestAheadIsSharedOut(t *testing.T) {
	for _, keys := range []int{1, TileKeys, 3*TileKeys + 5} {
		for _, offsets := range []int{0, 1, keys / 4, keys, 2 * keys} {
			ahead := Ahead{Off: make([]int, offsets)}
			for i := range ahead.Off {
				ahead.Off[i] = i
			}
			var got []int
			for lo := 0; lo < keys; lo += TileKeys {
				hi := min(lo+TileKeys, keys)
				part := ahead.Part(lo, hi, keys)
				if n := len(part.Off) * keys; n < offsets*(hi-lo)-keys || n > offsets*(hi-lo)+keys {
					t.Errorf("%d of %d offsets go with %d of %d keys", len(part.Off), offsets, hi-lo, keys)
				}
				got = append(got, part.Off...)
			}
			if !slices.Equal(got, ahead.Off) {
				t.Errorf("%d keys: of %d offsets these are fetched: %v", keys, offsets, got)
			}
		}
	}
}
