package simd

import (
	"encoding/binary"
	"math"
	"slices"
)

// integer is what the plain kernels know of an integer type.
type integer struct {
	bias int32 // codes do not exceed it in size
	full int32 // a code of nearly the largest size
}

var integers = [NumElems]integer{I8: {128, 120}, I4: {8, 7}}

// integerBlock is the keys that are scored together.
const integerBlock = 16

// integerPlain is the plain version of the kernels.
func integerPlain(e Elem) *Integer {
	scores := func(digits int) integerScores {
		return func(s []float32, stride int, q []byte, rows, dim int, k Tile, scales []float32, most float32, _ Ahead) (done int) {
			for done < len(k.Off) {
				n := min(integerBlock, len(k.Off)-done)
				if slices.ContainsFunc(from(scales, done)[:min(n, len(scales))], func(x float32) bool { return x > most || x < -most }) {
					break
				}
				done += n
			}
			for r := range rows {
				integerScoresRow(s[r*stride:], e, digits, q[r*DigitsBytes(dim):][:DigitsBytes(dim)], Tile{k.Data, k.Off[:done]}, scales)
			}
			return done
		}
	}
	sums := func(digits int) integerSums {
		return func(o []float32, rows, dim int, p []float32, stride int, alpha []float32, v Tile, scales, most []float32, first int, _ Ahead) (done int) {
			for done < len(v.Off) {
				tile := v.from(done)
				tile.Off = tile.Off[:min(TileKeys, len(tile.Off))]
				for r := range rows { // of which a kernel does all or none
					if !integerDoes(e, digits, p[r*stride+done:][:len(tile.Off)], dim, tile, from(scales, done), most[r]) {
						return done
					}
				}
				for r := range rows {
					integerAccumulateRow(o[r*dim:][:dim], e, digits, p[r*stride+done:][:len(tile.Off)], alpha[r], tile, first+done/TileKeys)
				}
				done += len(tile.Off)
				alpha = ones[:]
			}
			return done
		}
	}
	return &Integer{
		block: func(rows int) int { return min(rows, MaxIntegerRows) },
		toDigits: func(dst []byte, q []float32, rows, dim int) (coarse, loss float32) {
			for r := range rows {
				c, l := digitsRow(dst[r*DigitsBytes(dim):][:DigitsBytes(dim)], e, q[r*dim:][:dim])
				coarse, loss = max(coarse, c), max(loss, l)
			}
			return coarse, loss
		},
		coarse: scores(allDigits - 1), fine: scores(allDigits), floatScores: Scores(e), light: sums(2), heavy: sums(3), floatSums: Accumulate(e),
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
		s[j] = float32(math.Ldexp(float64(x), down))
		if len(scales) > 0 {
			s[j] *= scales[j]
		}
	}
}

// leastWeight stands for a largest weight below it.
const leastWeight = 0x1p-100

// largestWeight is what the largest weight becomes in so many digits.
func largestWeight(digits int) float32 { return float32(uint32(1)<<(8*digits) - 2) }

// integerDoes reports whether so many digits do for a tile's weights.
func integerDoes(e Elem, digits int, p []float32, dim int, v Tile, scales []float32, most float32) bool {
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
		if top > 0 && !full(e, v.Data[v.Off[first]:], dim) {
			return false
		}
		most *= scales[first]
	}
	return digits > 2 || top <= most
}

// integerAccumulateRow sums the tile of a number in integers.
func integerAccumulateRow(o []float32, e Elem, digits int, p []float32, alpha float32, v Tile, number int) {
	n, down := fixedWeights(digits, p, max(slices.Max(p), leastWeight), number)
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
}

// fixedWeights takes the weights of a tile of which top is the largest to fixed point, with what that is worth.
func fixedWeights(digits int, p []float32, top float32, tile int) (n []uint32, down float32) {
	n = make([]uint32, len(p))
	up := largestWeight(digits) / top
	for j, x := range p {
		if digits == 2 {
			n[j] = uint32(float32(math.FMA(float64(x), float64(up), dither(j, tile))))
		} else {
			n[j] = uint32(math.RoundToEven(float64(x * up)))
		}
	}
	return n, top * (1 / largestWeight(digits))
}

// dither is what is added to a weight of key j of a tile, in two digits, before it is cut: as
// many small weights that are alike go up as keep their sum. Its steps are in the order of j's bits with the last first,
// each flipped or not by the bits before it. Where in that order a tile begins, and what its steps are xor, go by the golden
// ratio from tile to tile, so that no pattern of values keeps to the weights that go up.
func dither(j, tile int) float64 {
	const tree uint64 = 0xebb56e285f1c9934
	turn := uint32(tile) * 0x9e3779b1
	place := uint32(j) + turn>>22%16*4
	step := uint64(turn >> 26)
	for b, node := 0, uint64(1); b < 6; b++ {
		bit := uint64(place >> (5 - b) & 1)
		step ^= (bit ^ tree>>node&1) << b
		node = 2*node + bit
	}
	return (float64(step) + 0.5) / TileKeys
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
