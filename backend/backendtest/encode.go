package backendtest

import (
	"encoding/binary"
	"math"

	"github.com/flashdec/flashdec/kv"
)

// The conversions here are the suite's own, so that a fault of package kv's does
// not hide behind itself. They cut what does not fit instead of rounding it:
// what a case stores is what the reference reads either way.

// significand is how many significant bits a type has: with the sign, as many as it
// holds exactly over [−1, 1).
func significand(t kv.DType) int {
	switch t {
	case kv.F16:
		return 11
	case kv.BF16:
		return 8
	}
	return 24
}

// encode stores a row of elements.
func encode(dst []byte, t kv.DType, src []float32) {
	for i, x := range src {
		switch t {
		case kv.F16:
			binary.LittleEndian.PutUint16(dst[2*i:], toHalf(x))
		case kv.BF16:
			binary.LittleEndian.PutUint16(dst[2*i:], toBFloat(x))
		default:
			binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(x))
		}
	}
}

// quantize replaces elements by what their type can hold of them.
func quantize(row []float32, t kv.DType) {
	for i, x := range row {
		switch t {
		case kv.F16:
			row[i] = fromHalf(toHalf(x))
		case kv.BF16:
			row[i] = math.Float32frombits(uint32(toBFloat(x)) << 16)
		}
	}
}

const halfNaN, bfloatNaN = 0x7e00, 0x7fc0

func toBFloat(x float32) uint16 {
	if x != x {
		return bfloatNaN
	}
	return uint16(math.Float32bits(x) >> 16)
}

// toHalf cuts x to a binary16. Too large is infinity, below 2⁻¹⁴ is zero.
func toHalf(x float32) uint16 {
	bits := math.Float32bits(x)
	sign, exp, frac := uint16(bits>>16)&0x8000, int(bits>>23&0xff)-127, uint16(bits>>13)&0x3ff
	switch {
	case x != x:
		return halfNaN
	case exp > 15:
		return sign | 0x7c00
	case exp < -14:
		return sign
	}
	return sign | uint16(exp+15)<<10 | frac
}

// fromHalf widens what toHalf yields.
func fromHalf(h uint16) float32 {
	sign, exp, frac := uint32(h&0x8000)<<16, uint32(h>>10&0x1f), uint32(h&0x3ff)
	switch exp {
	case 0:
		return math.Float32frombits(sign)
	case 31:
		return math.Float32frombits(sign | 0xff<<23 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+127-15)<<23 | frac<<13)
}

// poison fills data with the type's NaN.
func poison(data []byte, t kv.DType) {
	nan := []float32{float32(math.NaN())}
	size := t.Bits() / 8
	if len(data) < size {
		return
	}
	encode(data, t, nan)
	for n := size; n < len(data); n *= 2 {
		copy(data[n:], data[:n])
	}
}
