package simd

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// Integer is kernels that multiply the codes of an integer type, I8 or I4, as integers:
// 64 products an instruction where float32 has 16, and nothing to unpack. What codes
// are multiplied with is taken to fixed point for that, queries once and weights a
// tile at a time. Sums are exact then. What fixed point itself loses is bounded, in
// docs/NUMERICS.md, and where the bound would be missed, a kernel says so: the
// kernels of [Scores] and [Accumulate] take such a tile.
type Integer struct {
	toDigits   func(dst []byte, q []float32, rows, dim int) (loss float32)
	scores     func(s []float32, stride int, q []byte, rows, dim int, k Tile, scales []float32, most float32, ahead Ahead) bool
	accumulate func(o []float32, rows, dim int, p []float32, stride int, alpha []float32, v Tile, own bool, ahead Ahead) int
}

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

	// scoreLoss is how far a score may be off for its query's being in fixed point.
	scoreLoss = 0x1p-19 // docs/NUMERICS.md
)

// DigitsBytes is the size of a query of dim elements in fixed point.
func DigitsBytes(dim int) int { return digitsHead + 4*dim }

// Digits takes rows of queries to fixed point. With it, the score of a key of a scale of
// its own is off by 2⁻¹⁹ at most if that scale is at most most, in size. Where a query
// is not finite no scale serves, and most is negative.
func (f *Integer) Digits(dst []byte, q []float32, rows, dim int) (most float32) {
	if rows == 0 {
		return math.MaxFloat32
	}
	if loss := f.toDigits(dst, q, rows, dim); Finite(loss) {
		return min(scoreLoss/loss, math.MaxFloat32)
	}
	return -1
}

// Scores computes, of queries that f.Digits has taken to fixed point,
//
//	s[r·stride+j] = scales[j]·Σ_d q[r,d]·k_j[d],  r < rows, j < len(k.Off)
//
// where no scales are scales of 1. It reports false, and s is of no use, if a scale is
// above most.
func (f *Integer) Scores(s []float32, stride int, q []byte, rows, dim int, k Tile, scales []float32, most float32, ahead Ahead) bool {
	if len(scales) == 0 {
		scales = unscaled[:len(k.Off)]
	}
	return rows == 0 || len(k.Off) == 0 || f.scores(s, stride, q, rows, dim, k, scales, most, ahead)
}

var unscaled = func() (x [TileKeys]float32) {
	for i := range x {
		x[i] = 1
	}
	return x
}()

// Accumulate is what an [AccumulateFunc] computes, as far as it can: it yields the
// number of rows that are done, from the first on. It stops at rows with a weight that
// is negative or not finite. Where values have scales of their own, which are in the
// weights, it also stops unless the value of the largest weight has a code of nearly
// the largest size, as a row has that was quantised by its own scale: what other
// weights lose beside the largest must be small beside its value, too.
func (f *Integer) Accumulate(o []float32, rows, dim int, p []float32, stride int, alpha []float32, v Tile, own bool, ahead Ahead) (done int) {
	if rows == 0 || len(v.Off) == 0 {
		return 0
	}
	return f.accumulate(o, rows, dim, p, stride, alpha, v, own, ahead)
}

// A query in fixed point is a head and digits of base 256, of which the head has
//
//	start [4]int32   −bias·Σ of the digits of each weight
//	down  float32    the power of two of the lowest digit
//
// Four channels whose codes lie in the same halves of four bytes have [4][4]int8: the
// lowest digit of each, then the next.
const (
	digitsHead = 64
	digitsDown = 16
	queryBits  = 29 // of the largest element, behind its exponent
)

// integer is what the plain kernels know of an integer type.
type integer struct {
	bias int32 // codes do not exceed it in size
	full int32 // a code of nearly the largest size
}

var integers = [NumElems]integer{I8: {128, 120}, I4: {8, 7}}

// integerPlain is the plain version of the kernels.
func integerPlain(e Elem) *Integer {
	return &Integer{
		toDigits: func(dst []byte, q []float32, rows, dim int) (loss float32) {
			for r := range rows {
				loss = max(loss, digitsRow(dst[r*DigitsBytes(dim):][:DigitsBytes(dim)], e, q[r*dim:][:dim]))
			}
			return loss
		},
		scores: func(s []float32, stride int, q []byte, rows, dim int, k Tile, scales []float32, most float32, _ Ahead) bool {
			for r := range rows {
				integerScoresRow(s[r*stride:], e, q[r*DigitsBytes(dim):][:DigitsBytes(dim)], k, scales)
			}
			for _, x := range scales[:len(k.Off)] {
				if x > most || x < -most {
					return false
				}
			}
			return true
		},
		accumulate: func(o []float32, rows, dim int, p []float32, stride int, alpha []float32, v Tile, own bool, _ Ahead) int {
			for r := range rows {
				if !integerAccumulateRow(o[r*dim:][:dim], e, p[r*stride:][:len(v.Off)], alpha[r], v, own) {
					return r
				}
			}
			return rows
		},
	}
}

// exponent is that of a float32 above 0.
func exponent(x float32) int {
	_, e := math.Frexp(float64(x))
	return e - 1
}

// digitsRow takes a query to fixed point, and yields the most that a score may lose by it
// for a scale of 1: +Inf where it is not finite.
func digitsRow(dst []byte, e Elem, q []float32) (loss float32) {
	top := float32(math.SmallestNonzeroFloat32)
	for _, x := range q {
		if !Finite(x) {
			return float32(math.Inf(1))
		}
		top = max(top, x, -x)
	}
	down := exponent(top) - queryBits
	lost, sums := 0.0, [4]int32{}
	for d, x := range q {
		exact := math.Ldexp(float64(x), -down)
		n := math.RoundToEven(exact)
		lost += math.Abs(exact - n)
		for t, digit := range digits(int32(n)) {
			dst[digitsHead+place(e, d)+4*t] = byte(digit)
			sums[t] += int32(digit)
		}
	}
	bias := integers[e].bias
	for t, sum := range sums {
		binary.LittleEndian.PutUint32(dst[4*t:], uint32(-bias*sum))
	}
	binary.LittleEndian.PutUint32(dst[digitsDown:], math.Float32bits(float32(down)))
	return float32(math.Ldexp(lost*float64(bias), down))
}

// digits are those of n, below 2³⁰ in size, the lowest first.
func digits(n int32) (d [4]int8) {
	for t := range d {
		d[t] = int8(n)
		n = (n - int32(d[t])) >> 8
	}
	return d
}

// place is where the lowest digit of channel d lies behind the head.
func place(e Elem, d int) int {
	if e == I8 {
		return d/4*16 + d%4
	}
	return d/8*32 + d%2*16 + d%8/2
}

// integerScoresRow sums in integers.
func integerScoresRow(s []float32, e Elem, q []byte, k Tile, scales []float32) {
	dim := (len(q) - digitsHead) / 4
	down := math.Float32frombits(binary.LittleEndian.Uint32(q[digitsDown:]))
	for j, off := range k.Off {
		var sum [4]int32
		for d := range dim {
			code := int32(widenAt(e, k.Data[off:], d))
			for t := range sum {
				sum[t] += code * int32(int8(q[digitsHead+place(e, d)+4*t]))
			}
		}
		upper, lower := float32(sum[3]<<8+sum[2]), float32(sum[1]<<8+sum[0])
		s[j] = float32(math.Ldexp(float64(float32(float64(upper)*(1<<16)+float64(lower))), int(down))) * scales[j]
	}
}

const (
	weightBits  = 23       // of the largest weight, behind its exponent
	leastWeight = 0x1p-100 // stands for a largest weight below it
)

// integerAccumulateRow sums in integers. It reports false where it does not.
func integerAccumulateRow(o []float32, e Elem, p []float32, alpha float32, v Tile, own bool) bool {
	first, top := 0, float32(0)
	for j, x := range p {
		if !Finite(x) || x < 0 {
			return false
		}
		if x > top {
			first, top = j, x
		}
	}
	if own && top > 0 && !full(e, v.Data[v.Off[first]:], len(o)) {
		return false
	}
	down := exponent(max(top, leastWeight)) - weightBits
	for d := range o {
		var sum [3]int32
		for j, off := range v.Off {
			n := uint32(math.RoundToEven(math.Ldexp(float64(p[j]), -down)))
			code := int32(widenAt(e, v.Data[off:], d))
			for t := range sum {
				sum[t] += code * int32(bits.RotateLeft32(n, -8*t)&0xff)
			}
		}
		upper := float32(sum[2]<<8 + sum[1])
		x := float32(math.Ldexp(float64(float32(float64(upper)*(1<<8)+float64(sum[0]))), down))
		if alpha != 0 {
			x = float32(math.FMA(float64(o[d]), float64(alpha), float64(x)))
		}
		o[d] = x
	}
	return true
}

// full reports whether one of a row's codes is nearly of the largest size.
func full(e Elem, row []byte, dim int) bool {
	least := float32(integers[e].full)
	for d := range dim {
		if x := widenAt(e, row, d); x >= least || x <= -least {
			return true
		}
	}
	return false
}
