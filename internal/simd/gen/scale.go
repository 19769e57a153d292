package main

import (
	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func scaleFile(g *gen) {
	scale{
		gen: g, name: "scaleScores",
		doc: "computes s[r·stride+j] *= x[j], j < keys, r < rows.",
	}.emit()
	scale{
		gen: g, name: "scaleWeights", weights: true,
		doc: "computes s[r·stride+j] *= x[j]·unit, j < keys, r < rows, where −0 stays −0 and nothing else becomes it.",
	}.emit()
}

// scale multiplies rows of a tile by what each key has of its own: a vector of
// scales is loaded once and meets all rows.
type scale struct {
	*gen
	name, doc string
	weights   bool
}

func (g scale) emit() {
	unit := ""
	if g.weights {
		unit = ", unit float32"
	}
	g.TEXT(g.name+g.suffix, "func(s *float32, stride, rows, keys int, x *float32"+unit+")", g.doc)
	s, x, left := g.param("s"), g.param("x"), g.param("keys")
	by := g.param("stride")
	g.SHLQ(op.U8(2), by)
	var u, zero, negZero reg.VecVirtual
	if g.weights {
		u, zero, negZero = g.vec(), g.zero(), g.broadcast(0x80000000)
		g.VBROADCASTSS(g.paramMem("unit"), u)
	}
	product := func(old, by, dst reg.VecVirtual) {
		g.VMULPS(by, old, dst)
		if !g.weights {
			return
		}
		g.VADDPS(zero, dst, dst) // −0 + 0 = 0
		if g.lanes == 16 {
			hidden := g.K()
			g.VPCMPEQD(negZero, old, hidden)
			g.VMOVAPS(old, hidden, dst)
			return
		}
		hidden := g.vec()
		g.VPCMPEQD(negZero, old, hidden)
		g.VBLENDVPS(hidden, old, dst, dst)
	}
	// column multiplies one vector of every row.
	column := func(label string, load func(m op.Mem, dst reg.VecVirtual), store func(src reg.VecVirtual, m op.Mem)) {
		f := g.vec()
		load(op.Mem{Base: x}, f)
		if g.weights {
			g.VMULPS(u, f, f)
		}
		row, n := g.GP64(), g.param("rows")
		g.MOVQ(s, row)
		g.Label(label)
		old, y := g.vec(), g.vec()
		load(op.Mem{Base: row}, old)
		product(old, f, y)
		store(y, op.Mem{Base: row})
		g.ADDQ(by, row)
		g.DECQ(n)
		g.JNZ(op.LabelRef(label))
	}

	g.Label("vector")
	g.CMPQ(left, imm(g.lanes))
	g.JLT(op.LabelRef("rest"))
	column("row", func(m op.Mem, dst reg.VecVirtual) { g.VMOVUPS(m, dst) }, func(src reg.VecVirtual, m op.Mem) { g.VMOVUPS(src, m) })
	g.ADDQ(imm(4*g.lanes), s)
	g.ADDQ(imm(4*g.lanes), x)
	g.SUBQ(imm(g.lanes), left)
	g.JMP(op.LabelRef("vector"))
	g.Label("rest")
	g.TESTQ(left, left)
	g.JZ(op.LabelRef("done"))
	if g.lanes == 16 {
		mask, _ := g.tailMask(left)
		column("restRow", func(m op.Mem, dst reg.VecVirtual) { g.VMOVUPS_Z(m, mask, dst) }, func(src reg.VecVirtual, m op.Mem) { g.VMOVUPS(src, mask, m) })
	} else {
		mask := g.firstLanes(left)
		column("restRow", func(m op.Mem, dst reg.VecVirtual) { g.VMASKMOVPS(m, mask, dst) }, func(src reg.VecVirtual, m op.Mem) { g.VMASKMOVPS(src, mask, m) })
	}
	g.Label("done")
	g.VZEROUPPER()
	g.RET()
}

// firstLanes is a mask vector with the first n lanes of 8 set (AVX2).
func (g *gen) firstLanes(n reg.GPVirtual) reg.VecVirtual {
	ones := uint32(0xffffffff)
	t := g.table("firstLanes", ones, ones, ones, ones, ones, ones, ones, ones, 0, 0, 0, 0, 0, 0, 0, 0)
	base, from, mask := g.GP64(), g.GP64(), g.vec()
	g.LEAQ(t, base)
	g.MOVQ(imm(8), from)
	g.SUBQ(n, from)
	g.VMOVDQU(op.Mem{Base: base, Index: from, Scale: 4}, mask)
	return mask
}
