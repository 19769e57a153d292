package main

import (
	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// normFile emits what norms of whole vectors are made of.
func normFile(g *gen) {
	g.squares()
	g.times()
	g.add()
}

// squares emits Σ x² in float64: a sum for each lane of the first half of a vector, and of the second.
func (g *gen) squares() {
	g.TEXT("squares"+g.suffix, "func(x *float32, vectors int) float64", "computes Σ x² over so many vectors, at least 1, in float64.")
	x, left := g.param("x"), g.param("vectors")
	sums := []reg.VecVirtual{g.zero(), g.zero()}
	g.Label("vector")
	for i, sum := range sums {
		v := g.vec()
		g.VCVTPS2PD(op.Mem{Base: x, Disp: i * 2 * g.lanes}, v)
		g.VFMADD231PD(v, v, sum)
	}
	g.ADDQ(imm(4*g.lanes), x)
	g.DECQ(left)
	g.JNZ(op.LabelRef("vector"))
	g.VADDPD(sums[1], sums[0], sums[0])
	total, half := g.XMM(), g.YMM()
	if g.lanes == 16 {
		g.VEXTRACTF64X4(op.U8(1), sums[0], half)
		g.VADDPD(half, sums[0].AsY(), half)
	} else {
		g.VMOVAPD(sums[0], half)
	}
	g.VEXTRACTF128(op.U8(1), half, total)
	g.VADDPD(half.AsX(), total, total)
	g.VHADDPD(total, total, total)
	g.VZEROUPPER()
	g.Store(total, g.ReturnIndex(0))
	g.RET()
}

// times emits y = x·s·w.
func (g *gen) times() {
	g.TEXT("times"+g.suffix, "func(y, x, w *float32, s float32, vectors int)", "computes y = x·s·w over so many vectors, at least 1.")
	s := g.vec()
	g.VBROADCASTSS(g.paramMem("s"), s)
	g.elementwise(func(at []op.Mem) reg.VecVirtual {
		y := g.vec()
		g.VMULPS(at[1], s, y)
		g.VMULPS(at[2], y, y)
		return y
	}, "y", "x", "w")
}

// add emits y += x.
func (g *gen) add() {
	g.TEXT("add"+g.suffix, "func(y, x *float32, vectors int)", "computes y += x over so many vectors, at least 1.")
	g.elementwise(func(at []op.Mem) reg.VecVirtual {
		y := g.vec()
		g.VMOVUPS(at[0], y)
		g.VADDPS(at[1], y, y)
		return y
	}, "y", "x")
}

// elementwise ends a kernel with a loop over the vectors of some arrays: step yields what belongs in the first.
func (g *gen) elementwise(step func(at []op.Mem) reg.VecVirtual, arrays ...string) {
	places, at, left := make([]reg.GPVirtual, len(arrays)), make([]op.Mem, len(arrays)), g.param("vectors")
	for i, name := range arrays {
		places[i] = g.param(name)
		at[i] = op.Mem{Base: places[i]}
	}
	g.Label("vector")
	g.VMOVUPS(step(at), at[0])
	for _, p := range places {
		g.ADDQ(imm(4*g.lanes), p)
	}
	g.DECQ(left)
	g.JNZ(op.LabelRef("vector"))
	g.VZEROUPPER()
	g.RET()
}
