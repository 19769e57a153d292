package tensorfile

import (
	"encoding/binary"
	"math"
)

// widened returns the elements of a type narrower than float32, each exactly.
func (t Tensor) widened() []float32 {
	out := make([]float32, t.len())
	switch t.DType {
	case BF16:
		for i := range out {
			out[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(t.Data[2*i:])) << 16)
		}
	case F16:
		for i := range out {
			out[i] = widenF16(binary.LittleEndian.Uint16(t.Data[2*i:]))
		}
	case F8E5M2:
		for i, b := range t.Data {
			out[i] = widenF16(uint16(b) << 8)
		}
	case F8E4M3:
		for i, b := range t.Data {
			out[i] = widenE4M3(b)
		}
	default:
		panic("tensorfile: " + t.DType.String() + " is not narrower than F32")
	}
	return out
}

// widenF16 reads s.eeeee.mmmmmmmmmm: (−1)^s · 2^(e−15) · 1.m, and 2^−14 · 0.m where e = 0.
func widenF16(h uint16) float32 {
	sign := uint32(h>>15) << 31
	e, m := uint32(h>>10&0x1f), uint32(h&0x3ff)
	switch e {
	case 0:
		return withSign(sign, float32(m)*0x1p-24)
	case 0x1f: // infinity, or NaN with its payload
		return math.Float32frombits(sign | 0xff<<23 | m<<13)
	default:
		return math.Float32frombits(sign | (e+127-15)<<23 | m<<13)
	}
}

// widenE4M3 reads s.eeee.mmm: (−1)^s · 2^(e−7) · 1.m, and 2^−6 · 0.m where e = 0.
func widenE4M3(b uint8) float32 {
	sign := uint32(b>>7) << 31
	e, m := uint32(b>>3&0xf), uint32(b&7)
	switch {
	case e == 0:
		return withSign(sign, float32(m)*0x1p-9)
	case e == 0xf && m == 7: // the only NaN
		return math.Float32frombits(sign | 0xff<<23 | m<<20)
	default:
		return math.Float32frombits(sign | (e+127-7)<<23 | m<<20)
	}
}

func withSign(sign uint32, magnitude float32) float32 {
	return math.Float32frombits(sign | math.Float32bits(magnitude))
}
