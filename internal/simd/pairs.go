package simd

import "math"

// Queries that bfloat16 holds, as those of a model that computes in it are, are multiplied
// with keys in bfloat16 as such: no product is rounded, and none is among what float32
// would have to be unpacked for.

// Bounds of the elements that [Pairs] takes, zero aside: kernels take numbers below 2⁻¹²⁶ for
// zeros, and with keys that are so small no element then misses more than 2⁻⁶² of a product.
const leastPair, mostPair = 0x1p-64, 0x1p64

// PairedRows are the fewest rows of a group that gain by queries in pairs: one waits for memory.
const PairedRows = 2 // docs/calibration.md

// PairRow is what rows are multiples of for kernels that multiply pairs of elements.
const PairRow = 16

// Pairs packs an even number of elements of q into dst as bfloat16, [len(q) / 2] two each,
// and reports whether it holds all of them, none of which is out of bounds. Else what dst
// holds is of no use.
func Pairs(dst, q []float32) bool {
	for i := 0; i+1 < len(q); i += 2 {
		a, b := math.Float32bits(q[i]), math.Float32bits(q[i+1])
		if (a|b)<<16 != 0 || !pairable(q[i]) || !pairable(q[i+1]) {
			return false
		}
		dst[i/2] = math.Float32frombits(a>>16 | b)
	}
	return true
}

func pairable(x float32) bool {
	return x >= leastPair && x <= mostPair || x <= -leastPair && x >= -mostPair || x == 0
}

// PairScores is [Scores] for queries that [Pairs] has packed, rows of dim / 2 pairs, and keys of a
// multiple of PairRow elements; or nil where the current level has no such kernel for keys of
// type e. Heads' rows of q count in pairs.
func PairScores(e Elem) ScoresFunc {
	f := pairScoresFor(e)
	if f == nil {
		return nil
	}
	return f.one()
}

// HeadsPairScores is [PairScores] for heads side by side.
func HeadsPairScores(e Elem) HeadsScoresFunc { return pairScoresFor(e) }
