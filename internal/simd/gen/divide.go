package main

import (
	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// divideFile emits the division that ends a sum. A finite quotient less itself is
// +0, any other NaN: the bits of all differences, or-ed, tell whether there was one.
func divideFile(g *gen) {
	g.TEXT("divide"+g.suffix, "func(dst, a *float32, n int, l float32) uint32",
		"computes dst[i] = a[i]/l, i < n. It returns 0 where all are finite.")
	dst, a, left := g.param("dst"), g.param("a"), g.param("n")
	l, infinite := g.vec(), g.zero()
	g.VBROADCASTSS(g.paramMem("l"), l)
	quotient := func(load func(dst reg.VecVirtual), store func(src reg.VecVirtual)) {
		x, d := g.vec(), g.vec()
		load(x)
		g.VDIVPS(l, x, x)
		store(x)
		g.VSUBPS(x, x, d)
		g.VORPS(d, infinite, infinite)
	}
	from, to := op.Mem{Base: a}, op.Mem{Base: dst}

	g.Label("vector")
	g.CMPQ(left, imm(g.lanes))
	g.JLT(op.LabelRef("rest"))
	quotient(func(x reg.VecVirtual) { g.VMOVUPS(from, x) }, func(x reg.VecVirtual) { g.VMOVUPS(x, to) })
	g.ADDQ(imm(4*g.lanes), a)
	g.ADDQ(imm(4*g.lanes), dst)
	g.SUBQ(imm(g.lanes), left)
	g.JMP(op.LabelRef("vector"))
	g.Label("rest")
	g.TESTQ(left, left)
	g.JZ(op.LabelRef("done"))
	if g.lanes == 16 {
		mask, _ := g.tailMask(left)
		quotient(func(x reg.VecVirtual) { g.VMOVUPS_Z(from, mask, x) }, func(x reg.VecVirtual) { g.VMOVUPS(x, mask, to) })
	} else {
		mask := g.firstLanes(left)
		quotient(func(x reg.VecVirtual) { g.VMASKMOVPS(from, mask, x) }, func(x reg.VecVirtual) { g.VMASKMOVPS(x, mask, to) })
	}
	g.Label("done")
	y := infinite.AsY()
	if g.lanes == 16 {
		upper := g.YMM()
		g.VEXTRACTI64X4(op.U8(1), infinite, upper)
		g.VPOR(upper, y, y)
	}
	bad := g.GP32()
	g.XORL(bad, bad)
	g.VPTEST(y, y)
	g.SETNE(bad.As8())
	g.VZEROUPPER()
	g.Store(bad, g.ReturnIndex(0))
	g.RET()
}
