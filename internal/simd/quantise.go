package simd

import "math"

// Largest is the largest |x| of a row, 0 where it is empty. A NaN is larger than
// infinity there.
func Largest(x []float32) float32 { return math.Float32frombits(largest(x)) }

// Quantise stores the codes of 8-bit and smaller types that are nearest to x / scale, a
// float32 division, ties to even. What is too large for the type becomes its largest, and a scale
// of zero gives zeros. NaN stays NaN; infinity stays so where the type has it, and is NaN
// where not. The integers have 0 for NaN. An I4 row of odd length ends with a zero upper half.
func Quantise(dst []byte, e Elem, x []float32, scale float32) { quantise(dst, e, x, scale) }

// QuantiseChannels is [Quantise] with a scale for each element.
func QuantiseChannels(dst []byte, e Elem, x, scales []float32) {
	quantiseGeneric(dst, e, x, func(i int) float32 { return scales[i] })
}

// largestGeneric is the bits of the largest |x|: of numbers that are not below zero they
// are in order.
func largestGeneric(x []float32) (top uint32) {
	for _, x := range x {
		top = max(top, math.Float32bits(x)&^(1<<31))
	}
	return top
}

// codesAtOnce is even, so that each time ends at a whole byte.
const codesAtOnce = 64

func quantiseGeneric(dst []byte, e Elem, x []float32, scale func(i int) float32) {
	var codes [codesAtOnce]float32
	for d := 0; d < len(x); d += codesAtOnce {
		n := min(codesAtOnce, len(x)-d)
		for i, x := range x[d : d+n] {
			codes[i] = quotient(e, x, scale(d+i))
		}
		narrowGeneric(dst[e.RowBytes(d):e.RowBytes(d+n)], e, codes[:n])
	}
}

// quotient is what is rounded to the nearest code.
func quotient(e Elem, x, scale float32) float32 {
	switch {
	case !Finite(x) && e == E5M2:
		return x / scale
	case !Finite(x):
		return float32(math.NaN())
	case scale == 0:
		return 0
	}
	const most = 57344 // of E5M2, which would go on to infinity; the others saturate below
	return min(max(x/scale, -most), most)
}
