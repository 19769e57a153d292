package main

import (
	"math"

	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// lookups turn the codes of an 8-bit float, 64 at a time, into bfloat16, which holds all of a
// number: its two bytes are looked up in tables of 128, and joined with the sign. NaN, infinity
// and subnormals are numbers like others there.
type lookups struct {
	*gen
	e            elem
	lower, upper reg.VecVirtual // the first halves of the tables
	more         [2]op.Op       // the second halves
	signs        reg.VecVirtual // the sign's bit of each code, or nil: then these are in memory
	order        reg.VecVirtual // of bytes, so that unpacking leaves numbers in order: for load
}

// lookupCodes are looked up at a time, and become lookupVectors vectors of float32.
const (
	lookupCodes   = 64
	lookupVectors = 4
)

func (g *gen) lookups(e elem) *lookups {
	l := &lookups{gen: g, e: e, lower: g.vec(), upper: g.vec()}
	for half, first := range []reg.VecVirtual{l.lower, l.upper} {
		bytes := make([]byte, 128)
		for code := range bytes {
			bytes[code] = byte(float32bits(e.number(code)) >> (16 + 8*half))
		}
		name := e.name + []string{"Lower", "Upper"}[half]
		g.VMOVDQU32(g.table(name+"0", words(bytes[:64])...), first)
		l.more[half] = g.table(name+"64", words(bytes[64:])...)
	}
	return l
}

// resident keeps all constants in registers, where there are as many.
func (l *lookups) resident() *lookups {
	for half, m := range l.more {
		more := l.vec()
		l.VMOVDQU32(m, more)
		l.more[half] = more
	}
	l.signs = l.broadcast(signBits)
	return l
}

// inOrder sets up the order of codes that load wants.
func (l *lookups) inOrder() *lookups {
	order := make([]byte, 64)
	for i := range order {
		lane, place := i/16, i%16
		order[i] = byte(4*lane + place%8/2 + 16*(place%2) + 32*(place/8))
	}
	l.order = l.vec()
	l.VMOVDQU32(l.table("lookupOrder", words(order)...), l.order)
	return l
}

// number is what a code of an 8-bit float without its sign stands for.
func (e elem) number(code int) float32 {
	mantissa, bias, infinity, nan := 3, 7, 0x80, 0x7f // E4M3
	if e.name == "E5M2" {
		mantissa, bias, infinity, nan = 2, 15, 0x7c, 0x7d
	}
	exponent, fraction := code>>mantissa, code&(1<<mantissa-1)
	switch {
	case code >= nan:
		return float32(math.NaN())
	case code == infinity:
		return float32(math.Inf(1))
	case exponent == 0:
		exponent = 1
	default:
		fraction += 1 << mantissa
	}
	return float32(math.Ldexp(float64(fraction), exponent-bias-mantissa))
}

// words are bytes as little-endian words.
func words(b []byte) []uint32 {
	w := make([]uint32, len(b)/4)
	for i, x := range b {
		w[i/4] |= uint32(x) << (i % 4 * 8)
	}
	return w
}

// load makes dst, lookupVectors of them, the float32 of 64 codes at m.
func (l *lookups) load(m op.Mem, dst []reg.VecVirtual) {
	codes := l.vec()
	l.VPERMB(m, l.order, codes)
	low, high := l.vec(), l.vec()
	l.numbers(codes, low, high)
	for i, pairs := range []reg.VecVirtual{low, high} {
		l.VPSLLD(op.U8(16), pairs, dst[2*i])
		l.VPANDD_BCST(l.table("upperHalf", 0xffff0000), pairs, dst[2*i+1])
	}
}

// numbers makes low and high the bfloat16 of 64 codes: of each 16 of them, the first 8 come to
// low, the others to high.
func (l *lookups) numbers(codes, low, high reg.VecVirtual) {
	lower, upper := l.vec(), l.vec()
	l.VMOVDQA64(codes, lower)
	l.VPERMI2B(l.more[0], l.lower, lower)
	l.VMOVDQA64(codes, upper)
	l.VPERMI2B(l.more[1], l.upper, upper)
	if l.signs != nil {
		l.VPTERNLOGD(op.U8(orAnd), l.signs, codes, upper)
	} else {
		l.VPTERNLOGD_BCST(op.U8(orAnd), l.table("signs", signBits), codes, upper)
	}
	l.VPUNPCKLBW(upper, lower, low)
	l.VPUNPCKHBW(upper, lower, high)
}

// signBits are the signs of four codes.
const signBits = 0x80808080

// orAnd is the truth table of a or (b and c): bit 4a+2b+c is the value.
const orAnd = 0xf8
