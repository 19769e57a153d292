package main

import (
	"fmt"

	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const aheadArgs = "ahead *byte, aheadOff *int, aheadKeys, aheadLines int"

// ahead fetches the rows that come next, line by line in the order of memory and
// spread evenly over the kernel's steps, into the second cache: fetches into the
// first wait for its few miss buffers (docs/calibration.md).
type ahead struct {
	*gen
	p    reg.GPVirtual // the next line
	left reg.GPVirtual // lines left in its row, this one counted
	row  op.Mem        // the row's number
	per  op.Mem        // lines a step; 0 when there are no more
}

// ahead sets up for a number of steps, at least 1.
func (g *gen) ahead(steps reg.GPVirtual) *ahead {
	a := &ahead{gen: g, p: g.GP64(), left: g.GP64(), row: g.AllocLocal(8), per: g.AllocLocal(8)}
	total := g.param("aheadKeys")
	g.MOVQ(imm(0), a.row)
	g.MOVQ(imm(0), a.per)
	g.XORQ(a.p, a.p)
	g.XORQ(a.left, a.left)
	g.TESTQ(total, total)
	g.JZ(op.LabelRef("nothingAhead"))
	g.firstLine(a)
	// per = ⌈aheadKeys·aheadLines / steps⌉
	g.IMULQ(g.paramMem("aheadLines"), total)
	g.LEAQ(op.Mem{Base: total, Index: steps, Scale: 1, Disp: -1}, reg.RAX)
	g.XORL(reg.EDX, reg.EDX)
	g.DIVL(steps.As32())
	g.MOVL(reg.EAX, reg.EAX)
	g.MOVQ(reg.RAX, a.per)
	g.Label("nothingAhead")
	return a
}

func (g *gen) firstLine(a *ahead) {
	off := g.param("aheadOff")
	g.MOVQ(op.Mem{Base: off}, a.p)
	g.ADDQ(g.paramMem("ahead"), a.p)
	g.MOVQ(g.paramMem("aheadLines"), a.left)
}

// step touches one step's lines.
func (a *ahead) step() {
	n := a.GP64()
	a.MOVQ(a.per, n)
	a.touch(n)
}

// rest touches all lines that are left.
func (a *ahead) rest() {
	n := a.GP64()
	a.MOVQ(a.per, n)
	a.NEGQ(n) // as a count, more than there can be; 0 stays 0
	a.touch(n)
}

func (a *ahead) touch(n reg.GPVirtual) {
	label := fmt.Sprintf("ahead%d", a.id())
	a.TESTQ(n, n)
	a.JZ(op.LabelRef(label + "done"))
	a.Label(label)
	a.PREFETCHT1(op.Mem{Base: a.p})
	a.ADDQ(imm(64), a.p)
	a.DECQ(a.left)
	a.JNZ(op.LabelRef(label + "same"))
	a.nextRow(label)
	a.Label(label + "same")
	a.DECQ(n)
	a.JNZ(op.LabelRef(label))
	a.Label(label + "done")
}

// nextRow moves to the next row, or ends it all.
func (a *ahead) nextRow(label string) {
	row := a.left
	a.MOVQ(a.row, row)
	a.INCQ(row)
	a.MOVQ(row, a.row)
	a.CMPQ(row, a.paramMem("aheadKeys"))
	a.JLT(op.LabelRef(label + "row"))
	a.MOVQ(imm(0), a.per)
	a.JMP(op.LabelRef(label + "done"))
	a.Label(label + "row")
	a.MOVQ(a.paramMem("aheadOff"), a.p)
	a.MOVQ(op.Mem{Base: a.p, Index: row, Scale: 8}, a.p)
	a.ADDQ(a.paramMem("ahead"), a.p)
	a.MOVQ(a.paramMem("aheadLines"), a.left)
}
