package main

import (
	"github.com/mmcloughlin/avo/attr"
	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	"github.com/mmcloughlin/avo/x86"
)

const rodata = attr.NOPTR | attr.RODATA

// elem is an element type: how one vector of it becomes float32.
type elem struct {
	name string
	bits int
	// scale multiplies what load yields to make the value; a power of two, put on
	// sums so that elements need no multiplication of their own.
	scale float32
}

var elems = []elem{
	{"F32", 32, 1}, {"F16", 16, 1}, {"BF16", 16, 1}, {"E4M3", 8, 256}, {"E5M2", 8, 1}, {"I8", 8, 1}, {"I4", 4, 1},
}

// vecBytes is the memory of one vector's elements.
func (g *gen) vecBytes(e elem) int {
	if g.paired {
		return g.lanes * 4
	}
	return g.lanes * e.bits / 8
}

// loader holds the constants that a type's loads use.
type loader struct {
	g    *gen
	e    elem
	a, b reg.VecVirtual
	odd  reg.OpmaskVirtual

	tables *lookups // at a level that has them, in place of all else
}

// loader sets up the constants of type e.
func (g *gen) loader(e elem) *loader {
	l := &loader{g: g, e: e}
	switch {
	case g.paired: // multiplied as they are
	case e.name == "BF16" && g.level == &halves:
		l.a, l.odd = g.vec(), g.K()
		var places []uint32
		for i := uint32(0); i < 8; i++ {
			places = append(places, i|i<<16)
		}
		g.VMOVUPS(g.table("bf16Places", places...), l.a)
		words := g.GP32()
		g.MOVL(op.U32(0xaaaaaaaa), words)
		g.KMOVD(words, l.odd)
	case g.tables:
		l.tables = g.lookups(e).inOrder()
	case e.name == "E4M3" && g.lanes == 16:
		l.a = g.YMM()
		g.VPBROADCASTD(g.table("e4m3Mask", 0xbfffbfff), l.a)
	case e.name == "E4M3":
		l.a = g.XMM()
		g.VPBROADCASTD(g.table("e4m3Mask", 0xbfffbfff), l.a)
	case e.name == "I4" && g.lanes == 16:
		l.a, l.b = g.vec(), g.vec()
		var shifts []uint32
		for b := uint32(0); b < 64; b += 8 {
			shifts = append(shifts, b, b+4)
		}
		g.VMOVDQU32(g.table("i4Shifts", shifts...), l.a)
		codes := make([]uint32, 16)
		for i := range codes {
			codes[i] = float32bits(float32(i) - float32(i/8*16))
		}
		g.VMOVUPS(g.table("i4Values", codes...), l.b)
	case e.name == "I4":
		l.a = g.vec()
		g.VMOVDQU(g.table("i4Shifts", 28, 24, 20, 16, 12, 8, 4, 0), l.a)
	}
	return l
}

// load makes dst the float32 of a whole vector at m.
func (l *loader) load(m op.Mem, dst reg.VecVirtual) {
	g := l.g
	half := func() reg.VecVirtual {
		if g.lanes == 16 {
			return g.YMM()
		}
		return g.XMM()
	}
	if g.paired {
		g.VMOVUPS(m, dst)
		return
	}
	switch l.e.name {
	case "F32":
		g.VMOVUPS(m, dst)
	case "F16":
		g.VCVTPH2PS(m, dst)
	case "BF16":
		l.bf16(m, dst)
	case "E4M3": // sign, exponent and mantissa to a binary16's places, 2⁸ too small
		h := half()
		g.VPMOVSXBW(m, h)
		l.e4m3(h, dst)
	case "E5M2":
		h := half()
		g.VPMOVZXBW(m, h)
		g.VPSLLW(op.U8(8), h, h)
		g.VCVTPH2PS(h, dst)
	case "I8":
		g.VPMOVSXBD(m, dst)
		g.VCVTDQ2PS(dst, dst)
	case "I4":
		l.i4(m, dst)
	}
}

// bf16 puts each element into the upper half of its lane: where shuffles are dear
// by one permutation of words, those of the lower halves masked to zero.
func (l *loader) bf16(m op.Mem, dst reg.VecVirtual) {
	g := l.g
	if g.level == &halves {
		g.loadHalf(m, dst)
		g.VPERMW_Z(dst, l.a, l.odd, dst)
		return
	}
	g.VPMOVZXWD(m, dst)
	g.VPSLLD(op.U8(16), dst, dst)
}

// loadHalf loads the lower half of a vector and clears the upper one. avo takes a
// load of the half for one that leaves the rest as it was.
func (g *gen) loadHalf(m op.Mem, dst reg.VecVirtual) {
	load, err := x86.VMOVUPS(m, dst.AsX())
	if err != nil {
		panic(err)
	}
	load.Outputs = []op.Op{dst}
	g.Instruction(load)
}

func (l *loader) e4m3(h, dst reg.VecVirtual) {
	l.g.VPSLLW(op.U8(7), h, h)
	if l.g.lanes == 16 {
		l.g.VPANDD(l.a, h, h)
	} else {
		l.g.VPAND(l.a, h, h)
	}
	l.g.VCVTPH2PS(h, dst)
}

// i4 puts nibble i into the low bits of lane i. With 16 lanes each lane takes the
// 8 bits from its nibble on, and a permutation, which looks at 4 bits only, turns
// codes into values. With 8, shifts move the nibble to the top of its lane and
// back, sign and all.
func (l *loader) i4(m op.Mem, dst reg.VecVirtual) {
	g := l.g
	if g.lanes == 16 {
		g.VPBROADCASTQ(m, dst)
		g.VPMULTISHIFTQB(dst, l.a, dst)
		g.VPERMPS(l.b, dst, dst)
		return
	}
	g.VPBROADCASTD(m, dst)
	g.VPSLLVD(l.a, dst, dst)
	g.VPSRAD(op.U8(28), dst, dst)
	g.VCVTDQ2PS(dst, dst)
}

// loadMasked is load of the elements in mask (AVX-512 only): the others are zero,
// and their memory is not read. byteMask is the mask of the bytes that hold them,
// which only I4 looks at.
func (l *loader) loadMasked(m op.Mem, mask, byteMask, dst reg.Register) {
	g := l.g
	switch l.e.name {
	case "F32":
		g.VMOVUPS_Z(m, mask, dst)
	case "F16":
		g.VCVTPH2PS_Z(m, mask, dst)
	case "BF16":
		g.VPMOVZXWD_Z(m, mask, dst)
		g.VPSLLD(op.U8(16), dst, dst)
	case "E4M3":
		h := g.YMM()
		g.VPMOVSXBW_Z(m, mask, h)
		l.e4m3(h, dst.(reg.VecVirtual))
	case "E5M2":
		h := g.YMM()
		g.VPMOVZXBW_Z(m, mask, h)
		g.VPSLLW(op.U8(8), h, h)
		g.VCVTPH2PS(h, dst)
	case "I8":
		g.VPMOVSXBD_Z(m, mask, dst)
		g.VCVTDQ2PS(dst, dst)
	case "I4":
		bytes := g.XMM()
		g.VMOVDQU8_Z(m, byteMask, bytes)
		g.VPBROADCASTQ(bytes, dst)
		g.VPMULTISHIFTQB(dst, l.a, dst)
		g.VPERMPS_Z(l.b, dst, mask, dst)
	}
}

// tailMask makes the masks of the first n < lanes elements, and of the bytes
// that hold n nibbles.
func (g *gen) tailMask(n reg.GPVirtual) (mask, byteMask reg.OpmaskVirtual) {
	mask, byteMask = g.K(), g.K()
	bits, ones := g.GP32(), g.GP32()
	half := g.GP64()
	g.MOVL(op.U32(0xffffffff), ones)
	g.BZHIL(n.As32(), ones, bits)
	g.KMOVW(bits, mask)
	g.LEAQ(op.Mem{Base: n, Disp: 1}, half)
	g.SHRQ(op.U8(1), half)
	g.BZHIL(half.As32(), ones, bits)
	g.KMOVW(bits, byteMask)
	return mask, byteMask
}

// lastLanes is a mask vector with the last n lanes of 8 set (AVX2).
func (g *gen) lastLanes(n reg.GPVirtual) reg.VecVirtual {
	ones := uint32(0xffffffff)
	t := g.table("lanes", 0, 0, 0, 0, 0, 0, 0, 0, ones, ones, ones, ones, ones, ones, ones, ones)
	base, mask := g.GP64(), g.vec()
	g.LEAQ(t, base)
	g.VMOVUPS(op.Mem{Base: base, Index: n, Scale: 4}, mask)
	return mask
}
