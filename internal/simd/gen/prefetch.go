package main

import (
	"fmt"

	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// prefetch asks for rows j … j+n−1 of what is ahead, or for all from j on where n
// is 0, each aheadLines cache lines.
func (g *gen) prefetch(j reg.GPVirtual, n int) {
	id := g.id()
	row, end, label := g.GP64(), g.param("aheadKeys"), fmt.Sprintf("ahead%d", id)
	g.MOVQ(j, row)
	if n > 0 {
		limit := g.GP64()
		g.LEAQ(op.Mem{Base: j, Disp: n}, limit)
		g.CMPQ(limit, end)
		g.CMOVQLT(limit, end)
	}
	g.CMPQ(row, end)
	g.JGE(op.LabelRef(label + "done"))
	g.Label(label + "row")
	g.prefetchLines(row, label)
	g.INCQ(row)
	g.CMPQ(row, end)
	g.JLT(op.LabelRef(label + "row"))
	g.Label(label + "done")
}

// id is a number for labels.
func (g *gen) id() int {
	g.labels++
	return g.labels
}

// prefetchRow asks for row j of what is ahead.
func (g accumulate) prefetchRow(j, aheadKeys reg.GPVirtual) {
	label := fmt.Sprintf("ahead%d", g.id())
	g.CMPQ(j, aheadKeys)
	g.JGE(op.LabelRef(label + "done"))
	g.prefetchLines(j, label)
	g.Label(label + "done")
}

// prefetchRest asks for the rows from j on, and for nothing after that.
func (g accumulate) prefetchRest(j, aheadKeys reg.GPVirtual) {
	label := fmt.Sprintf("ahead%d", g.id())
	g.Label(label + "row")
	g.CMPQ(j, aheadKeys)
	g.JGE(op.LabelRef(label + "done"))
	g.prefetchLines(j, label)
	g.INCQ(j)
	g.JMP(op.LabelRef(label + "row"))
	g.Label(label + "done")
	g.XORQ(aheadKeys, aheadKeys)
}

// prefetchLines asks for the aheadLines lines of row j.
func (g *gen) prefetchLines(j reg.GPVirtual, label string) {
	p, lines, base := g.param("aheadOff"), g.param("aheadLines"), g.param("ahead")
	g.MOVQ(op.Mem{Base: p, Index: j, Scale: 8}, p)
	g.ADDQ(base, p)
	g.Label(label + "line")
	g.PREFETCHT0(op.Mem{Base: p})
	g.ADDQ(op.Imm(64), p)
	g.DECQ(lines)
	g.JNZ(op.LabelRef(label + "line"))
}
