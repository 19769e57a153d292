package simd

import (
	"math"
	"sync"
)

// TileKeys is the most keys whose values are one float32 sum, or one of integers. Kernels, and a
// softmax, take any number.
const TileKeys = 64 // docs/calibration.md

// Tile is rows of keys or of values: row j begins at byte Off[j] of Data.
type Tile struct {
	Data []byte
	Off  []int
}

// Ahead is what to fetch into the cache while working on something else: Bytes
// bytes at each offset. Fetching is a hint: offsets that Data does not hold
// do no harm. The zero value fetches nothing.
type Ahead struct {
	Data  []byte
	Off   []int
	Bytes int
}

// Part is what goes with [lo, hi) of n keys, rows or tiles: as large a share of all, whatever is listed.
func (a Ahead) Part(lo, hi, n int) Ahead {
	a.Off = a.Off[len(a.Off)*lo/n : len(a.Off)*hi/n]
	return a
}

// ScoresFunc computes
//
//	s[r·stride+j] = Σ_d q[r·dim+d]·k_j[d],  r < rows, j < len(k.Off)
//
// in float32, and touches no other element of s.
type ScoresFunc func(s []float32, stride int, q []float32, rows, dim int, k Tile, ahead Ahead)

// AccumulateFunc computes
//
//	o[r·dim+d] = o[r·dim+d]·alpha[r] + Σ_j p[r·stride+j]·v_j[d],  r < rows, d < dim
//
// The tile's own sum is built from zero and then added, so that the error of a
// long split grows with its tiles, not with its keys. Of several tiles each has a sum of
// its own, and alpha is for the first. Where alpha[r] is 0, o is written without being read.
type AccumulateFunc func(o []float32, rows, dim int, p []float32, stride int, alpha []float32, v Tile, ahead Ahead)

// Scores returns the fastest kernel of the current level for keys of type e.
func Scores(e Elem) ScoresFunc { return scoresFor(e).one() }

// Accumulate returns the fastest kernel of the current level for values of type e.
func Accumulate(e Elem) AccumulateFunc { return accumulateFor(e).one() }

// Softmax takes rows of scores, of a tile or of several, into their running states. For each row
// r, over j < keys, in natural-log units:
//
//	m' = max(m, max_j s_j)    α = exp(m − m')    p_j = exp(s_j − m')
//	l' = l·α + Σ_j p_j
//
// p replaces s (−0 where s was −Inf), m' and l' replace m[r] and l[r], and alpha[r] is α. It starts
// from m = −Inf, l = 0: alpha is exactly 0 then, and only then (an α that would
// underflow is 2⁻¹²⁶). A row that has seen only −Inf keeps m = −Inf, l = 0, with
// p = 0. A NaN score makes m and l NaN, and so does +Inf make l.
//
// hidden reports that some score was −Inf: such a key is not to be read into the
// sum, so [AccumulateVisible] must follow.
func Softmax(s []float32, stride, rows, keys int, m, l, alpha []float32) (hidden bool) {
	return softmax(s, stride, rows, keys, m, l, alpha)
}

// ScaleScores computes
//
//	s[r·stride+j] *= x[j],  r < rows, j < len(x)
//
// for keys that have a scale each.
func ScaleScores(s []float32, stride, rows int, x []float32) { scaleScores(s, stride, rows, x) }

// ScaleWeights computes
//
//	p[r·stride+j] *= x[j]·unit,  r < rows, j < len(x)
//
// for values that have a scale each. The weight of a hidden key, −0, stays what it
// is, and no other becomes −0.
func ScaleWeights(p []float32, stride, rows int, x []float32, unit float32) {
	scaleWeights(p, stride, rows, x, unit)
}

// Divide computes
//
//	dst[i] = a[i] / l,  i < len(a)
//
// by a division, not a reciprocal, by which an average of ones would not be one. It
// reports whether all quotients are finite. dst may be a.
func Divide(dst, a []float32, l float32) (finite bool) { return divide(dst, a, l) }

// Average computes
//
//	dst[i] = Σ_b weight[b]·o[b][i] / l,  i < len(dst), b < len(weight)
//
// in float64, the sum in the order of b, with the same bits at every level of an architecture. dst may
// be one of o.
func Average(dst []float32, weight []float64, o [][]float32, l float64) { average(dst, weight, o, l) }

// Fetch fetches the numbers x[at[i]], and what lies beside them, into the cache while
// something else is worked on. It is a hint, as [Ahead] is.
func Fetch(x []float32, at []int) { fetch(x, at) }

// FetchBytes fetches data likewise.
func FetchBytes(data []byte) { fetchBytes(data) }

// AccumulateVisible is [Accumulate] where rows do not all see the tile's keys: a
// key whose weight is −0, which is what [Softmax] gives to a score of −Inf, is
// left out of the row's sum whatever its value holds. p is used up.
func AccumulateVisible(e Elem, o []float32, rows, dim int, p []float32, stride int, alpha []float32, v Tile, ahead Ahead) {
	accumulate := Accumulate(e)
	off := offsets.Get().(*[TileKeys]int)
	defer offsets.Put(off)
	for r := range rows {
		n, weights := 0, p[r*stride:]
		for j, x := range v.Off {
			if w := weights[j]; math.Float32bits(w) != NegZero {
				off[n], weights[n] = x, w
				n++
			}
		}
		accumulate(o[r*dim:], 1, dim, weights, stride, alpha[r:], Tile{v.Data, off[:n]}, ahead)
		ahead = Ahead{}
	}
}

// offsets are lists for AccumulateVisible.
var offsets = sync.Pool{New: func() any { return new([TileKeys]int) }}

// NegZero is the bits of −0, the p that [Softmax] gives to a score of −Inf.
const NegZero = 1 << 31

// Widen converts elements of src to float32, exactly. It fills dst. NaN stays
// NaN and becomes quiet.
func Widen(dst []float32, e Elem, src []byte) { widenGeneric(dst, e, src) }

// Narrow converts all of src to type e, rounding to nearest, ties to even. NaN
// stays NaN (quiet); F16, BF16 and E5M2 overflow to infinity; E4M3 saturates at
// 448, as its OCP specification has it; I8 and I4 saturate, and NaN becomes 0.
// An I4 row of odd length ends with a zero upper half.
func Narrow(dst []byte, e Elem, src []float32) { narrow(dst, e, src) }
