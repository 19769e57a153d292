package simd

import "math"

// Queries that bfloat16 holds, as those of a model that computes in it are, are multiplied
// with keys in bfloat16 as such, or with 8-bit floats, all of which it holds: no product is
// rounded, and none is among what float32 would have to be unpacked for.

// Bounds of the elements that [Pairs] takes, zero aside: kernels take numbers below 2⁻¹²⁶ for
// zeros, and with keys that are so small no element then misses more than 2⁻⁶² of a product.
const leastPair, mostPair = 0x1p-64, 0x1p64

// PairedRows are the fewest rows of a group that gain by queries in pairs, for keys of type e: one
// waits for memory, of which 8-bit floats want half as much (docs/calibration.md).
func PairedRows(e Elem) int {
	if e == BF16 {
		return 2
	}
	return 1
}

// PairRow is what rows are multiples of for kernels that multiply pairs of elements of keys of type e.
func PairRow(e Elem) int {
	if e == BF16 {
		return 16
	}
	return 64
}

// PairsLen is how many numbers [Pairs] packs n elements of q into, for keys of type e: 8-bit floats meet each
// pair twice.
func PairsLen(e Elem, n int) int {
	if e == BF16 {
		return n / 2
	}
	return n
}

// Pairs packs rows of q, of a multiple of PairRow elements, into dst as bfloat16, [PairsLen(e, len(q))] two
// each, in the order that kernels for keys of type e want, and reports whether it holds all of them,
// none of which is out of bounds. Else what dst holds is of no use.
func Pairs(e Elem, dst, q []float32) bool {
	for i := 0; i+1 < len(q); i += 2 {
		a, b := math.Float32bits(q[i]), math.Float32bits(q[i+1])
		if (a|b)<<16 != 0 || !pairable(q[i]) || !pairable(q[i+1]) {
			return false
		}
		pair := math.Float32frombits(a>>16 | b)
		if e == BF16 {
			dst[i/2] = pair
			continue
		}
		at := lookedUp(i / 2)
		dst[at], dst[at+2] = pair, pair
	}
	return true
}

// lookedUp is where kernels that look codes of two keys up, by fours, want pair i for the one, and two places on for
// the other: of 32 pairs, the first two of each eight come first.
func lookedUp(i int) int { return i&^31<<1 | i>>1&3<<4 | i>>3&3<<2 | i&1 }

func pairable(x float32) bool {
	return x >= leastPair && x <= mostPair || x <= -leastPair && x >= -mostPair || x == 0
}

// PairScores is [Scores] for queries that [Pairs] has packed, rows of PairsLen(e, dim), and keys of a
// multiple of PairRow elements; or nil where the current level has no such kernel for keys of
// type e. Heads' rows of q count in what is packed.
func PairScores(e Elem) ScoresFunc {
	f := pairScoresFor(e)
	if f == nil {
		return nil
	}
	return f.one()
}

// HeadsPairScores is [PairScores] for heads side by side.
func HeadsPairScores(e Elem) HeadsScoresFunc { return pairScoresFor(e) }
