package main

import (
	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// gateFile emits the kernel
//
//	h_i = x_i·σ(a_i)·y_i,  σ(a) = 1/(1 + e^−a)
//
// for whole vectors. With e = e^−|a|, which does not overflow, σ is 1/(1 + e) or, below 0, e/(1 + e).
func gateFile(g *gen) {
	g.TEXT("gate"+g.suffix, "func(h, x, a, y *float32, vectors int)",
		"computes h = x·σ(a)·y over so many vectors, at least 1.")
	s := softmax{gen: g}
	one, sign := g.broadcast(float32bits(1)), g.broadcast(1<<31)
	h, gp, ap, u, left := g.param("h"), g.param("x"), g.param("a"), g.param("y"), g.param("vectors")
	g.Label("vector")
	a, e, y := g.vec(), g.vec(), g.vec()
	g.VMOVUPS(op.Mem{Base: ap}, a)
	g.VORPS(sign, a, e)
	s.exp(e)
	g.VADDPS(one, e, y)
	g.below(a, one, e)
	g.VDIVPS(y, e, y)
	g.VMULPS(op.Mem{Base: gp}, y, y)
	g.VMULPS(op.Mem{Base: u}, y, y)
	g.VMOVUPS(y, op.Mem{Base: h})
	for _, p := range []reg.GPVirtual{h, gp, ap, u} {
		g.ADDQ(imm(4*g.lanes), p)
	}
	g.DECQ(left)
	g.JNZ(op.LabelRef("vector"))
	g.VZEROUPPER()
	g.RET()
}

// below keeps y where a is negative, and makes it x elsewhere.
func (g *gen) below(a, x, y reg.VecVirtual) {
	if g.lanes == 8 {
		g.VBLENDVPS(a, y, x, y)
		return
	}
	k := g.K()
	g.VPMOVD2M(a, k)
	g.VBLENDMPS(y, x, k, y)
}
