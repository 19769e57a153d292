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
// docs/NUMERICS.md: a digit less of it is taken where that is enough, and where all are
// too few, a kernel says so: the kernels of [Scores] and [Accumulate] take such a tile.
type Integer struct {
	toDigits     func(dst []byte, q []float32, rows, dim int) (coarse, loss float32)
	coarse, fine integerScores // without the lowest digit of queries, and with it
	light, heavy integerSums   // of weights in two digits, and in three
}

type (
	// integerScores reports whether no scale is above most.
	integerScores func(s []float32, stride int, q []byte, rows, dim int, k Tile, scales []float32, most float32, ahead Ahead) bool
	// integerSums yields how many rows it has done: its next block of them, or none.
	integerSums func(o []float32, rows, dim int, p []float32, stride int, alpha []float32, v Tile, scales, most []float32, ahead Ahead) (done int)
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
	coarseLoss = 0x1.ep-19 // docs/NUMERICS.md
	scoreLoss  = 0x1p-19
)

// LightShare is how much of the weights of all keys so far the largest of a tile may be for
// two digits of weights to be enough.
const LightShare = 1. / 32 // docs/NUMERICS.md

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

// Scores computes, of queries that f.Digits has taken to fixed point,
//
//	s[r·stride+j] = scales[j]·Σ_d q[r,d]·k_j[d],  r < rows, j < len(k.Off)
//
// where no scales are scales of 1. It reports false, and s is of no use, if a scale is
// out of reach. A scale that needs the lowest digit makes reach want it from then on:
// a chunk's tiles are much alike, and to compute twice is worse than to compute more.
func (f *Integer) Scores(s []float32, stride int, q []byte, rows, dim int, k Tile, scales []float32, reach *Reach, ahead Ahead) bool {
	if rows == 0 || len(k.Off) == 0 {
		return true
	}
	least := float32(0)
	if len(scales) == 0 {
		scales, least = unscaled[:len(k.Off)], 1
	}
	if reach.coarse >= least {
		if f.coarse(s, stride, q, rows, dim, k, scales, reach.coarse, ahead) {
			return true
		}
		reach.coarse = -1
	}
	return reach.fine >= least && f.fine(s, stride, q, rows, dim, k, scales, reach.fine, ahead)
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
//
// Rows whose largest weight, without its scale, is at most most[r] have their weights in
// two digits, as far as all rows of a block do; others in three.
func (f *Integer) Accumulate(o []float32, rows, dim int, p []float32, stride int, alpha []float32, v Tile, scales, most []float32, ahead Ahead) (done int) {
	if len(v.Off) == 0 {
		return 0
	}
	for done < rows {
		o, p, alpha, most := o[done*dim:], p[done*stride:], alpha[done:], most[done:]
		n := f.light(o, rows-done, dim, p, stride, alpha, v, scales, most, ahead)
		if n == 0 {
			n = f.heavy(o, rows-done, dim, p, stride, alpha, v, scales, most, ahead)
		}
		if n == 0 {
			break
		}
		done += n
		ahead = Ahead{}
	}
	return done
}

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

// integer is what the plain kernels know of an integer type.
type integer struct {
	bias int32 // codes do not exceed it in size
	full int32 // a code of nearly the largest size
}

var integers = [NumElems]integer{I8: {128, 120}, I4: {8, 7}}

// integerPlain is the plain version of the kernels.
func integerPlain(e Elem) *Integer {
	scores := func(digits int) integerScores {
		return func(s []float32, stride int, q []byte, rows, dim int, k Tile, scales []float32, most float32, _ Ahead) bool {
			for r := range rows {
				integerScoresRow(s[r*stride:], e, digits, q[r*DigitsBytes(dim):][:DigitsBytes(dim)], k, scales)
			}
			for _, x := range scales[:len(k.Off)] {
				if x > most || x < -most {
					return false
				}
			}
			return true
		}
	}
	sums := func(digits int) integerSums {
		return func(o []float32, rows, dim int, p []float32, stride int, alpha []float32, v Tile, scales, most []float32, _ Ahead) int {
			if integerAccumulateRow(o[:dim], e, digits, p[:len(v.Off)], alpha[0], v, scales, most[0]) {
				return 1
			}
			return 0
		}
	}
	return &Integer{
		toDigits: func(dst []byte, q []float32, rows, dim int) (coarse, loss float32) {
			for r := range rows {
				c, l := digitsRow(dst[r*DigitsBytes(dim):][:DigitsBytes(dim)], e, q[r*dim:][:dim])
				coarse, loss = max(coarse, c), max(loss, l)
			}
			return coarse, loss
		},
		coarse: scores(allDigits - 1), fine: scores(allDigits), light: sums(2), heavy: sums(3),
	}
}

// exponent is that of a float32 above 0.
func exponent(x float32) int {
	_, e := math.Frexp(float64(x))
	return e - 1
}

// digitsRow takes a query to fixed point, and yields the most that a score may lose by it
// for a scale of 1, without the lowest digits and with them: +Inf where it is not finite.
func digitsRow(dst []byte, e Elem, q []float32) (coarse, loss float32) {
	top := float32(math.SmallestNonzeroFloat32)
	for _, x := range q {
		if !Finite(x) {
			inf := float32(math.Inf(1))
			return inf, inf
		}
		top = max(top, x, -x)
	}
	down := exponent(top)
	up := queryLargest / float32(math.Ldexp(float64(top), -down))
	lost, lowest, sums := 0.0, 0.0, [allDigits]int32{}
	for d, x := range q {
		exact := math.Ldexp(float64(x), -down) * float64(up)
		product := float64(float32(exact)) // in two parts, as float32 has them
		n, more := math.RoundToEven(product), math.RoundToEven(exact-product)
		lost += math.Abs(product-n) + math.Abs(exact-product-more)
		for t, digit := range digits(int32(n + more)) {
			dst[digitsHead+place(e, d)+4*t] = byte(digit)
			sums[t] += int32(digit)
			if t == 0 {
				lowest += math.Abs(float64(digit))
			}
		}
	}
	bias, unit := integers[e].bias, 1/up
	for t, sum := range sums {
		binary.LittleEndian.PutUint32(dst[4*t:], uint32(-bias*sum))
	}
	binary.LittleEndian.PutUint32(dst[digitsUnit:], math.Float32bits(unit))
	binary.LittleEndian.PutUint32(dst[digitsDown:], math.Float32bits(float32(down)))
	worth := float64(unit) * float64(bias)
	return float32(math.Ldexp((lost+lowest)*worth, down)), float32(math.Ldexp(lost*worth, down))
}

// digits are those of n, the lowest first.
func digits(n int32) (d [allDigits]int8) {
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

// integerScoresRow sums in integers, with so many digits of a query.
func integerScoresRow(s []float32, e Elem, digits int, q []byte, k Tile, scales []float32) {
	dim, lowest := (len(q)-digitsHead)/4, allDigits-digits
	head := func(at int) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(q[at:])) }
	unit, down := head(digitsUnit), int(head(digitsDown))+8*lowest
	for j, off := range k.Off {
		var sum [allDigits]int32
		for d := range dim {
			code := int32(widenAt(e, k.Data[off:], d))
			for t := range digits {
				sum[t] += code * int32(int8(q[digitsHead+place(e, d)+4*(lowest+t)]))
			}
		}
		upper, lower := float32(sum[3]<<8+sum[2]), float32(sum[1]<<8+sum[0])
		x := float32(float64(upper)*(1<<16)+float64(lower)) * unit
		s[j] = float32(math.Ldexp(float64(x), down)) * scales[j]
	}
}

const (
	heavyBits   = 23        // of the largest weight in three digits, behind its exponent
	lightTop    = 1<<16 - 2 // what the largest becomes in two
	leastWeight = 0x1p-100  // stands for a largest weight below it
)

// integerAccumulateRow sums in integers. It reports false where it does not.
func integerAccumulateRow(o []float32, e Elem, digits int, p []float32, alpha float32, v Tile, scales []float32, most float32) bool {
	first, top := 0, float32(0)
	for j, x := range p {
		if !Finite(x) || x < 0 {
			return false
		}
		if x > top {
			first, top = j, x
		}
	}
	if len(scales) > 0 {
		if top > 0 && !full(e, v.Data[v.Off[first]:], len(o)) {
			return false
		}
		most *= scales[first]
	}
	if digits == 2 && !(top <= most) {
		return false
	}
	n, down := fixedWeights(digits, p, max(top, leastWeight))
	for d := range o {
		var sum [3]int32
		for j, off := range v.Off {
			code := int32(widenAt(e, v.Data[off:], d))
			for t := range digits {
				sum[t] += code * int32(n[j]>>(8*t)&0xff)
			}
		}
		x := float32(float64(float32(sum[2]<<8+sum[1]))*(1<<8)+float64(sum[0])) * down
		if alpha != 0 {
			x = float32(math.FMA(float64(o[d]), float64(alpha), float64(x)))
		}
		o[d] = x
	}
	return true
}

// fixedWeights takes weights of which top is the largest to fixed point, with what that is worth.
func fixedWeights(digits int, p []float32, top float32) (n []uint32, down float32) {
	n = make([]uint32, len(p))
	if digits == 2 {
		up := lightTop / top
		for j, x := range p {
			n[j] = uint32(float32(math.FMA(float64(x), float64(up), dither(j))))
		}
		return n, top * (1 / float32(lightTop))
	}
	exp := exponent(top) - heavyBits
	for j, x := range p {
		n[j] = uint32(math.RoundToEven(math.Ldexp(float64(x), -exp)))
	}
	return n, float32(math.Ldexp(1, exp))
}

// dither is what is added to a weight of key j of a tile, in two digits, before it is cut: as
// many small weights that are alike go up as keep their sum.
func dither(j int) float64 { return (float64(bits.Reverse8(uint8(j))>>2) + 0.5) / TileKeys }

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
