package main

import (
	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// fourValues is a loader of four keys: it hands on two vectors of o at a time, whose
// words are the signed bytes of the four keys. See inOrder for where channels are.
type fourValues func(key, place reg.GPVirtual, use func(first int, v [2]reg.VecVirtual))

// row is where a key's channels lie, from one of a pass on.
func (g integerAccumulate) row(key, place reg.GPVirtual, i, from int) op.Mem {
	p := g.GP64()
	g.MOVQ(op.Mem{Base: key, Disp: 8 * i}, p)
	return op.Mem{Base: p, Index: place, Scale: 1, Disp: from * g.e.bits / 8}
}

// halfOfValues loads the first two of the vectors that 64 channels are, or the other two.
func (g integerAccumulate) halfOfValues(half int) fourValues {
	if g.e.bits == 8 {
		unpack := g.VPUNPCKLBW
		if half > 0 {
			unpack = g.VPUNPCKHBW
		}
		return func(key, place reg.GPVirtual, use func(int, [2]reg.VecVirtual)) {
			a, b, v := g.vec(), g.vec(), g.vec()
			g.VMOVDQU32(g.row(key, place, 0, 0), a)
			g.VMOVDQU32(g.row(key, place, 2, 0), b)
			unpack(g.row(key, place, 1, 0), a, a)
			unpack(g.row(key, place, 3, 0), b, b)
			g.VPUNPCKLWD(b, a, v)
			g.VPUNPCKHWD(b, a, a)
			use(0, [2]reg.VecVirtual{v, a})
		}
	}
	low, order := g.broadcast(0x0f0f0f0f), g.vec()
	g.VMOVDQU32(g.quadOrder(), order)
	return func(key, place reg.GPVirtual, use func(int, [2]reg.VecVirtual)) {
		v := g.vec()
		g.loadPart(g.row(key, place, 0, 32*half), v.AsX(), v)
		for i := 1; i < 4; i++ {
			g.VINSERTI32X4(op.U8(uint8(i)), g.row(key, place, i, 32*half), v, v)
		}
		g.VPERMB(v, order, v)
		use(0, g.nibbles(v, low))
	}
}

// quadOrder takes 16 bytes each of four keys as words of a byte of each.
func (g integerAccumulate) quadOrder() op.Mem {
	words := make([]uint32, 16)
	for i := range words {
		words[i] = uint32(i) * 0x01010101
		words[i] += 0x30201000
	}
	return g.table("quadOrder", words...)
}

// values loads all vectors of so many channels.
func (g integerAccumulate) values(channels int) fourValues {
	row := g.row
	if g.e.bits == 8 {
		return func(key, place reg.GPVirtual, use func(int, [2]reg.VecVirtual)) {
			for from := 0; from < channels; from += 64 {
				a, b := g.vec(), g.vec()
				p, q := row(key, place, 1, from), row(key, place, 3, from)
				g.VMOVDQU32(row(key, place, 0, from), a)
				g.VMOVDQU32(row(key, place, 2, from), b)
				lower, other, upper, third := g.vec(), g.vec(), g.vec(), g.vec()
				g.VPUNPCKLBW(p, a, lower)
				g.VPUNPCKLBW(q, b, other)
				g.VPUNPCKLWD(other, lower, upper)
				g.VPUNPCKHWD(other, lower, lower)
				use(from/16, [2]reg.VecVirtual{upper, lower})
				g.VPUNPCKHBW(p, a, a)
				g.VPUNPCKHBW(q, b, b)
				g.VPUNPCKLWD(b, a, third)
				g.VPUNPCKHWD(b, a, a)
				use(from/16+2, [2]reg.VecVirtual{third, a})
			}
		}
	}
	low, order := g.broadcast(0x0f0f0f0f), g.vec()
	g.VMOVDQU32(g.pairOrder(), order)
	return func(key, place reg.GPVirtual, use func(int, [2]reg.VecVirtual)) {
		for from := 0; from < channels; from += 64 {
			a, b, v := g.vec(), g.vec(), g.vec()
			for i, z := range []reg.VecVirtual{a, b} {
				g.loadPart(row(key, place, 2*i, from), z.AsY(), z)
				g.VINSERTI64X4(op.U8(1), row(key, place, 2*i+1, from), z, z)
				g.VPERMB(z, order, z)
			}
			g.VPUNPCKLWD(b, a, v)
			use(from/16, g.nibbles(v, low))
			g.VPUNPCKHWD(b, a, a)
			use(from/16+2, g.nibbles(a, low))
		}
	}
}

// pairOrder takes 32 bytes each of two keys as words of a byte of both, four from the
// lower half beside four from the upper, so that unpacking leaves bytes in order.
func (g integerAccumulate) pairOrder() op.Mem {
	words := make([]uint32, 16)
	for i := range words {
		first := i/4*4 + i%2*2 // of the two bytes in this word
		if i%4 >= 2 {
			first += 16
		}
		b := uint32(first)
		words[i] = b | (32+b)<<8 | (b+1)<<16 | (33+b)<<24
	}
	return g.table("pairOrder", words...)
}

// nibbles splits bytes: the codes, plus their bias, of the lower halves and of the
// upper ones.
func (g integerAccumulate) nibbles(v, low reg.VecVirtual) [2]reg.VecVirtual {
	flip, upper := g.table("flip", 0x88888888), g.vec()
	g.VPSRLW(op.U8(4), v, upper)
	g.VPTERNLOGD_BCST(op.U8(andXor), flip, low, v)
	g.VPTERNLOGD_BCST(op.U8(andXor), flip, low, upper)
	return [2]reg.VecVirtual{v, upper}
}
