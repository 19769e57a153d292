package simd

import (
	"encoding/binary"
	"math"
)

// small is a binary floating-point type of at most 16 bits: sign, exponent,
// mantissa.
type small struct {
	mantissa int    // bits
	bias     int    // of the exponent
	largest  uint32 // the code of the largest finite number
	infinite bool   // largest+1 is infinity; else overflow saturates
	nan      uint32 // the quiet NaN that Narrow gives
}

var (
	binary16 = small{mantissa: 10, bias: 15, largest: 0x7bff, infinite: true, nan: 0x7e00}
	e4m3     = small{mantissa: 3, bias: 7, largest: 0x7e, nan: 0x7f}
	e5m2     = small{mantissa: 2, bias: 15, largest: 0x7b, infinite: true, nan: 0x7e}
)

// widen is the float32 of a code without its sign.
func (t *small) widen(code uint32) float32 {
	switch {
	case t.infinite && code == t.largest+1:
		return float32(math.Inf(1))
	case code > t.largest:
		return math.Float32frombits(0x7fc00000 | code<<(23-t.mantissa)&0x7fffff)
	case code>>t.mantissa == 0: // subnormal: an integer times 2^(1−bias−mantissa)
		return float32(code) * math.Float32frombits(uint32(127+1-t.bias-t.mantissa)<<23)
	}
	return math.Float32frombits(code<<(23-t.mantissa) + uint32(127-t.bias)<<23)
}

// narrow is the code of the nearest number to a float32 without its sign, ties to even.
func (t *small) narrow(x float32) uint32 {
	bits := math.Float32bits(x)
	if bits > 0x7f800000 {
		return t.nan | bits>>(23-t.mantissa)&(1<<t.mantissa-1)
	}
	var code uint32
	if drop := 23 - t.mantissa; bits < uint32(127+1-t.bias)<<23 {
		// Adding 2^(23+1−bias−mantissa) rounds x to the subnormals' grid.
		grid := math.Float32frombits(uint32(127+23+1-t.bias-t.mantissa) << 23)
		code = math.Float32bits(x+grid) - math.Float32bits(grid)
	} else {
		bits -= uint32(127-t.bias) << 23
		code = (bits + 1<<(drop-1) - 1 + bits>>drop&1) >> drop
	}
	if code > t.largest {
		code = t.largest
		if t.infinite {
			code++
		}
	}
	return code
}

// widenSigned and narrowSigned carry the sign at the given bit.
func (t *small) widenSigned(code uint32, sign int) float32 {
	x := t.widen(code & (1<<sign - 1))
	return math.Float32frombits(math.Float32bits(x) | code>>sign<<31)
}

func (t *small) narrowSigned(x float32, sign int) uint32 {
	bits := math.Float32bits(x)
	return t.narrow(math.Float32frombits(bits&^(1<<31))) | bits>>31<<sign
}

func widenBF16(code uint16) float32 {
	bits := uint32(code) << 16
	if bits&0x7fffffff > 0x7f800000 {
		bits |= 0x400000
	}
	return math.Float32frombits(bits)
}

func narrowBF16(x float32) uint16 {
	bits := math.Float32bits(x)
	if x != x {
		return uint16(bits>>16) | 0x40
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

// narrowInt rounds to the nearest integer in [lo, hi], ties to even; NaN is 0.
func narrowInt(x, lo, hi float32) int8 {
	if x != x {
		return 0
	}
	return int8(math.RoundToEven(float64(min(max(x, lo), hi))))
}

func widenGeneric(dst []float32, e Elem, src []byte) {
	for i := range dst {
		dst[i] = widenAt(e, src, i)
	}
}

// widenAt is element i of src.
func widenAt(e Elem, src []byte, i int) float32 {
	switch e {
	case F32:
		return math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
	case F16:
		return binary16.widenSigned(uint32(binary.LittleEndian.Uint16(src[2*i:])), 15)
	case BF16:
		return widenBF16(binary.LittleEndian.Uint16(src[2*i:]))
	case E4M3:
		return e4m3.widenSigned(uint32(src[i]), 7)
	case E5M2:
		return e5m2.widenSigned(uint32(src[i]), 7)
	case I8:
		return float32(int8(src[i]))
	default:
		return float32(int8(src[i/2]<<(4-i%2*4)) >> 4)
	}
}

func narrowGeneric(dst []byte, e Elem, src []float32) {
	switch e {
	case F32:
		for i, x := range src {
			binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(x))
		}
	case F16:
		for i, x := range src {
			binary.LittleEndian.PutUint16(dst[2*i:], uint16(binary16.narrowSigned(x, 15)))
		}
	case BF16:
		for i, x := range src {
			binary.LittleEndian.PutUint16(dst[2*i:], narrowBF16(x))
		}
	case E4M3:
		for i, x := range src {
			dst[i] = byte(e4m3.narrowSigned(x, 7))
		}
	case E5M2:
		for i, x := range src {
			dst[i] = byte(e5m2.narrowSigned(x, 7))
		}
	case I8:
		for i, x := range src {
			dst[i] = byte(narrowInt(x, -128, 127))
		}
	default:
		clear(dst[:I4.RowBytes(len(src))])
		for i, x := range src {
			dst[i/2] |= byte(narrowInt(x, -8, 7)) & 15 << (i % 2 * 4)
		}
	}
}
