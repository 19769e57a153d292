package simd

import "math"

// Integer is kernels that multiply the codes of an integer type, I8 or I4, as integers:
// 64 products an instruction where float32 has 16, and nothing to unpack. What codes
// are multiplied with is taken to fixed point for that, queries once and weights a
// tile at a time. Sums are exact then. What fixed point itself loses is bounded, in
// docs/NUMERICS.md: a digit less of it is taken where that is enough, and where all are
// too few, float32 takes its place.
type Integer struct {
	block        func(rows int) int // how many of so many rows kernels take at once
	toDigits     func(dst []byte, q []float32, rows, dim int) (coarse, loss float32)
	coarse, fine integerScores // without the lowest digit of queries, and with it
	light, heavy integerSums   // of weights in two digits, and in three

	floatScores ScoresFunc
	floatSums   AccumulateFunc
}

// integerScores and integerSums take a block of rows. They yield how many keys are done:
// they end before one with a scale above most, or before a tile whose weights do not do.
type (
	integerScores func(s []float32, stride int, q []byte, rows, dim int, k Tile, scales []float32, most float32, ahead Ahead) (done int)
	integerSums   func(o []float32, rows, dim int, p []float32, stride int, alpha []float32, v Tile, scales, most []float32, tile int, ahead Ahead) (done int)
)

// IntegerKernels returns those of the current level for codes of type e, or nil where it
// has none.
func IntegerKernels(e Elem) *Integer { return integerFor(e) }

// Takes reports whether f, which may be nil, takes rows of dim elements.
func (f *Integer) Takes(dim int) bool { return f != nil && takesIntegers(dim) }

// takesIntegers reports whether kernels for integers take rows of dim elements.
func takesIntegers(dim int) bool { return dim > 0 && dim%integerStep == 0 && dim <= integerDim }

const (
	integerStep = 64
	integerDim  = 448 // two digits' sum of so many products, in 32 bits

	// coarseLoss and scoreLoss are how far a score may be off for its query's being in
	// fixed point, without its lowest digit and with it.
	coarseLoss = 0x1.8p-18 // docs/NUMERICS.md
	scoreLoss  = 0x1p-19
)

// LightShare is how much of the weights of all keys so far the largest of a tile may be for
// two digits of weights to be enough.
const LightShare = 1. / 32 // docs/NUMERICS.md

// A query in fixed point is a head and digits of base 256, of which the head has
//
//	start [4]int32   −bias·Σ of the digits of each weight
//	unit  float32    the worth of the lowest digit, times 2 to the power of
//	down  float32
//
// Four channels whose codes lie in the same halves of four bytes have [4][4]int8: the
// lowest digit of each, then the next.
const (
	digitsHead   = 64
	digitsUnit   = 16
	digitsDown   = 20
	allDigits    = 4
	queryLargest = 127 << 24 // what the largest element becomes
)

// MaxIntegerRows is the most rows that kernels of integers take at once.
const MaxIntegerRows = 4

// DigitsBytes is the size of a query of dim elements in fixed point.
func DigitsBytes(dim int) int { return digitsHead + 4*dim }

// Reach is the largest scales of keys, in size, for which the scores of queries in fixed
// point are close enough. Below 0, none serves.
type Reach struct {
	coarse, fine float32 // without the lowest digit, and with it
}

// Digits takes rows of queries to fixed point.
func (f *Integer) Digits(dst []byte, q []float32, rows, dim int) Reach {
	if rows == 0 {
		return Reach{math.MaxFloat32, math.MaxFloat32}
	}
	coarse, loss := f.toDigits(dst, q, rows, dim)
	return Reach{reach(coarseLoss, coarse), reach(scoreLoss, loss)}
}

// reach is the largest scale with which loss, for a scale of 1, comes to no more than limit.
func reach(limit, loss float32) float32 {
	if !Finite(loss) {
		return -1
	}
	return min(limit/loss, math.MaxFloat32)
}

// Scores computes
//
//	s[r·stride+j] = scales[j]·Σ_d q[r,d]·k_j[d],  r < rows, j < len(k.Off)
//
// where no scales are scales of 1. f.Digits has taken q to digits. A scale that needs the lowest
// digit makes reach want it from then on: a chunk's tiles are much alike, and to try in vain costs
// time. Scales beyond reach make scores in float32.
func (f *Integer) Scores(s []float32, stride int, q []float32, digits []byte, rows, dim int, k Tile, scales []float32, reach *Reach, ahead Ahead) {
	keys, left := len(k.Off), *reach
	if len(scales) == 0 {
		if left.coarse < 1 {
			left.coarse = -1
		}
		if left.fine < 1 {
			left.fine = -1
		}
	}
	for r := 0; r < rows && keys > 0; {
		n, done, within := f.block(rows-r), 0, left
		s, digits := s[r*stride:], digits[r*DigitsBytes(dim):]
		if within.coarse >= 0 {
			done = f.coarse(s, stride, digits, n, dim, k, scales, within.coarse, ahead)
		}
		if done < keys && within.fine >= 0 {
			within.coarse = -1
			done += f.fine(s[done:], stride, digits, n, dim, k.from(done), from(scales, done), within.fine, ahead.Part(done, keys, keys))
		}
		if done < keys {
			f.floatScores(s[done:], stride, q[r*dim:], n, dim, k.from(done), ahead.Part(done, keys, keys))
			ScaleScores(s[done:], stride, n, from(scales, done))
		}
		*reach = within
		r += n
		ahead = Ahead{}
	}
}

// from is the tile without its first n keys.
func (t Tile) from(n int) Tile { return Tile{t.Data, t.Off[n:]} }

// from is list[n:], as far as it goes.
func from[T any](list []T, n int) []T { return list[min(n, len(list)):] }

// Accumulate is what an [AccumulateFunc] computes, with scales that values have, and weights
// have been multiplied with, if they have any, and the most that a row's largest weight, without
// that, may be for two digits of weights to be enough; where it is above that in any row of a block,
// three are taken. Two are rounded up or down by a key's place in its tile and by that tile's number among those
// of the row, of which tile is the first.
//
// float32 takes the tiles of weights that are negative or not finite. And those where values have scales of
// their own and the value of the largest weight has no code of nearly the largest size, as a
// row has that was quantised by its own scale: what other weights lose beside the largest must be
// small beside its value, too.
func (f *Integer) Accumulate(o []float32, rows, dim int, p []float32, stride int, alpha []float32, v Tile, scales, most []float32, tile int, ahead Ahead) {
	for r := 0; r < rows; {
		n := f.block(rows - r)
		f.sum(o[r*dim:], n, dim, p[r*stride:], stride, alpha[r:], v, scales, most[r:], tile, ahead)
		r += n
		ahead = Ahead{}
	}
}

// sum is Accumulate for a block of rows.
func (f *Integer) sum(o []float32, rows, dim int, p []float32, stride int, alpha []float32, v Tile, scales, most []float32, tile int, ahead Ahead) {
	for keys := len(v.Off); keys > 0; keys = len(v.Off) {
		done := f.light(o, rows, dim, p, stride, alpha, v, scales, most, tile, ahead)
		if done == 0 {
			done = min(TileKeys, keys)
			v, ahead := Tile{v.Data, v.Off[:done]}, ahead.Part(0, done, keys)
			if f.heavy(o, rows, dim, p, stride, alpha, v, scales, most, tile, ahead) == 0 {
				f.floatSums(o, rows, dim, p, stride, alpha, v, ahead)
			}
		}
		p, v, scales, ahead = p[done:], v.from(done), from(scales, done), ahead.Part(done, keys, keys)
		tile += done / TileKeys
		alpha = ones[:] // o has come down to its scores' maxima
	}
}
