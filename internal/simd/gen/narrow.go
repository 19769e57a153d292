package main

import (
	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// narrowFile emits the conversions that a cache stores keys and values with.
func narrowFile(g *gen) {
	g.narrow("F16", func() func(x reg.VecVirtual, to op.Mem) {
		const nearest = 0 // ties to even
		return func(x reg.VecVirtual, to op.Mem) { g.VCVTPS2PH(op.U8(nearest), x, to) }
	})
	g.narrow("BF16", g.narrowBF16)
}

// narrow emits the kernel that stores vectors of float32 as another type.
func (g *gen) narrow(name string, setUp func() func(x reg.VecVirtual, to op.Mem)) {
	g.TEXT("narrow"+name+g.suffix, "func(dst *byte, x *float32, vectors int)", "rounds so many vectors of x, at least 1, to nearest, ties to even. NaN stays NaN.")
	store := setUp()
	dst, x, left := g.param("dst"), g.param("x"), g.param("vectors")
	g.Label("vector")
	v := g.vec()
	g.VMOVUPS(op.Mem{Base: x}, v)
	store(v, op.Mem{Base: dst})
	g.ADDQ(imm(4*g.lanes), x)
	g.ADDQ(imm(2*g.lanes), dst)
	g.DECQ(left)
	g.JNZ(op.LabelRef("vector"))
	g.VZEROUPPER()
	g.RET()
}

// narrowBF16 stores the upper halves of x + 2¹⁵ − 1, and 1 more where those are odd; of NaN, its own with the
// quiet bit set.
func (g *gen) narrowBF16() func(x reg.VecVirtual, to op.Mem) {
	below, one, quiet := g.broadcast(0x7fff), g.broadcast(1), g.broadcast(0x400000)
	const unordered = 3
	return func(x reg.VecVirtual, to op.Mem) {
		odd, sum := g.vec(), g.vec()
		g.VPSRLD(op.U8(16), x, odd)
		if g.lanes == 16 {
			nan := g.K()
			g.VPANDD(one, odd, odd)
			g.VPADDD(below, x, sum)
			g.VPADDD(odd, sum, sum)
			g.VCMPPS(op.U8(unordered), x, x, nan)
			g.VPORD(quiet, x, nan, sum)
			g.VPSRLD(op.U8(16), sum, sum)
			g.VPMOVDW(sum, to)
			return
		}
		nan, own := g.vec(), g.vec()
		g.VPAND(one, odd, odd)
		g.VPADDD(below, x, sum)
		g.VPADDD(odd, sum, sum)
		g.VCMPPS(op.U8(unordered), x, x, nan)
		g.VPOR(quiet, x, own)
		g.VBLENDVPS(nan, own, sum, sum)
		g.VPSRLD(op.U8(16), sum, sum)
		g.VPACKUSDW(sum, sum, sum)
		g.VPERMQ(op.U8(0x08), sum, sum)
		g.VMOVDQU(sum.AsX(), to)
	}
}
