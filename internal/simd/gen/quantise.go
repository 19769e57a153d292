package main

import (
	"math"

	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// quantiseFile emits what a cache stores quantised rows with.
func quantiseFile(g *gen) {
	g.largest()
	quantise{gen: g, name: "I8", bits: 8}.integers(-128, 127)
	quantise{gen: g, name: "I4", bits: 4}.integers(-8, 7)
	quantise{gen: g, name: "E4M3", bits: 8}.floats(3, 7, 448)
	quantise{gen: g, name: "E5M2", bits: 8}.floats(2, 15, 57344)
}

// largest emits the kernel that finds the largest |x|, as bits, which for numbers not
// below zero are in order: those of NaN are the largest.
func (g *gen) largest() {
	g.TEXT("largest"+g.suffix, "func(x *float32, vectors int) uint32", "is the bits of the largest |x| of so many vectors, at least 1.")
	x, left := g.param("x"), g.param("vectors")
	magnitude, top := g.broadcast(0x7fffffff), g.zero()
	g.Label("vector")
	v := g.vec()
	g.VMOVUPS(op.Mem{Base: x}, v)
	g.and(magnitude, v)
	g.VPMAXUD(v, top, top)
	g.ADDQ(imm(4*g.lanes), x)
	g.DECQ(left)
	g.JNZ(op.LabelRef("vector"))
	half, bits := g.XMM(), g.GP32()
	if g.lanes == 16 {
		g.foldLanes(top, func(a, b reg.VecVirtual) { g.VPMAXUD(a, b, b) })
	} else {
		g.VEXTRACTI128(op.U8(1), top, half)
		g.VPMAXUD(half, top.AsX(), top.AsX())
		for _, order := range []uint8{0x4e, 0xb1} {
			g.VPSHUFD(op.U8(order), top.AsX(), half)
			g.VPMAXUD(half, top.AsX(), top.AsX())
		}
	}
	g.VMOVD(top.AsX(), bits)
	g.Store(bits, g.ReturnIndex(0))
	g.VZEROUPPER()
	g.RET()
}

// quantise emits the kernels that store the codes nearest to x / scale, ties to even.
type quantise struct {
	*gen
	name string
	bits int
}

// emit emits a kernel: code turns quotients into codes, one a lane, and store stores them.
func (g quantise) emit(code func(v reg.VecVirtual), store func(v reg.VecVirtual, to op.Mem)) {
	dst, x, left, scale := g.param("dst"), g.param("x"), g.param("vectors"), g.vec()
	g.VBROADCASTSS(g.paramMem("scale"), scale)
	g.Label("vector")
	v := g.vec()
	g.VMOVUPS(op.Mem{Base: x}, v)
	g.VDIVPS(scale, v, v)
	code(v)
	store(v, op.Mem{Base: dst})
	g.ADDQ(imm(4*g.lanes), x)
	g.ADDQ(imm(g.lanes*g.bits/8), dst)
	g.DECQ(left)
	g.JNZ(op.LabelRef("vector"))
	g.VZEROUPPER()
	g.RET()
}

func (g quantise) begin() {
	g.TEXT("quantise"+g.name+g.suffix, "func(dst *byte, x *float32, vectors int, scale float32)",
		"stores the codes nearest to x / scale, which are numbers, of so many vectors, at least 1.")
}

// integers is for integers from lo to hi.
func (g quantise) integers(lo, hi float32) {
	g.begin()
	least, most := g.broadcast(float32bits(lo)), g.broadcast(float32bits(hi))
	store := g.bytes(g.VPACKSSDW, g.VPACKSSWB)
	if g.bits == 4 {
		store = g.nibbles()
	}
	g.emit(func(v reg.VecVirtual) {
		g.VMINPS(most, v, v)
		g.VMAXPS(least, v, v)
		g.VCVTPS2DQ(v, v)
	}, store)
}

// floats is for 8-bit floats: sign, exponent and mantissa, with a largest number at which
// they saturate.
func (g quantise) floats(mantissa, bias int, largest float32) {
	g.begin()
	drop := 23 - mantissa
	most, magnitude := g.broadcast(float32bits(largest)), g.broadcast(0x7fffffff)
	// Below the least normal number, adding the grid rounds to the subnormals'.
	least := g.broadcast(float32bits(float32(math.Ldexp(1, 1-bias))))
	grid := g.broadcast(float32bits(float32(math.Ldexp(1, 23+1-bias-mantissa))))
	rebias, below, one := g.broadcast(uint32(127-bias)<<23-(1<<(drop-1)-1)), g.broadcast(0x80), g.broadcast(1)
	g.emit(func(v reg.VecVirtual) {
		a, odd, small := g.vec(), g.vec(), g.vec()
		g.VMOVAPS(v, a)
		g.and(magnitude, a)
		g.VMINPS(most, a, a)
		g.VADDPS(grid, a, small)
		g.VPSUBD(grid, small, small)
		g.VPSRLD(op.U8(24), v, v)
		g.and(below, v)
		g.VPSRLD(op.U8(uint8(drop)), a, odd)
		g.and(one, odd)
		g.VPADDD(a, odd, odd)
		g.VPSUBD(rebias, odd, odd)
		g.VPSRLD(op.U8(uint8(drop)), odd, odd)
		const less = 1
		if g.lanes == 16 {
			subnormal := g.K()
			g.VCMPPS(op.U8(less), least, a, subnormal)
			g.VMOVDQA32(small, subnormal, odd)
			g.VPORD(odd, v, v)
			return
		}
		subnormal := g.vec()
		g.VCMPPS(op.U8(less), least, a, subnormal)
		g.VBLENDVPS(subnormal, small, odd, odd)
		g.VPOR(odd, v, v)
	}, g.bytes(g.VPACKUSDW, g.VPACKUSWB))
}

// bytes stores a byte of each lane; at AVX2 by the two packings.
func (g quantise) bytes(words, bytes func(...op.Op)) func(v reg.VecVirtual, to op.Mem) {
	return func(v reg.VecVirtual, to op.Mem) {
		if g.lanes == 16 {
			g.VPMOVDB(v, to)
			return
		}
		upper := g.XMM()
		words(v, v, v)
		bytes(v, v, v)
		g.VEXTRACTI128(op.U8(1), v, upper)
		g.VPUNPCKLDQ(upper, v.AsX(), upper)
		g.VMOVQ(upper, to)
	}
}

// nibbles stores four bits of each lane, the first of two in the lower half of a byte.
func (g quantise) nibbles() func(v reg.VecVirtual, to op.Mem) {
	low := g.broadcast(0x0f)
	var ends reg.VecVirtual
	if g.lanes == 8 {
		ends = g.vec()
		g.VMOVDQU(g.table("pairEnds", 0x80800800, 0, 0, 0, 0x80800800, 0, 0, 0), ends)
	}
	return func(v reg.VecVirtual, to op.Mem) {
		odd := g.vec()
		g.VPSRLQ(op.U8(28), v, odd) // the odd lane's four bits to bits 4 to 7
		if g.lanes == 16 {
			const either = 0xca // where a is set, b, else c
			mask := g.vec()
			g.VMOVDQA64(low, mask)
			g.VPTERNLOGD(op.U8(either), odd, v, mask)
			g.VPMOVQB(mask, to)
			return
		}
		upper := g.XMM()
		g.VPAND(low, v, v)
		g.VPANDN(odd, low, odd)
		g.VPOR(odd, v, v)
		g.VPSHUFB(ends, v, v)
		g.VEXTRACTI128(op.U8(1), v, upper)
		g.VPUNPCKLWD(upper, v.AsX(), upper)
		g.VMOVD(upper, to)
	}
}
