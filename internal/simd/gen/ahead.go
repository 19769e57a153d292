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
//
// Few instructions a line: what they take of the reorder buffer, loads of lines that
// are not there yet lack (docs/calibration.md).
type ahead struct {
	*gen
	p    reg.GPVirtual // the next line
	left reg.GPVirtual // lines left in its row, this one counted
	row  op.Mem        // the row's number
	rows op.Mem        // how many there are; rows that touch are one
	per  op.Mem        // lines a step; 0 when there are no more
}

// ahead sets up for a number of steps, at least 1.
func (g *gen) ahead(steps reg.GPVirtual) *ahead {
	a := &ahead{gen: g, p: g.GP64(), left: g.GP64(), row: g.AllocLocal(8), rows: g.AllocLocal(8), per: g.AllocLocal(8)}
	total := g.param("aheadKeys")
	g.MOVQ(imm(0), a.row)
	g.MOVQ(imm(0), a.per)
	g.XORQ(a.p, a.p)
	g.XORQ(a.left, a.left)
	g.TESTQ(total, total)
	g.JZ(op.LabelRef("nothingAhead"))
	g.firstLine(a, total)
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

// firstLine goes to the first of a number of rows, or, if each begins where the one
// before ends, of the one row that they are. Some lists in another order look the
// same; their lines are guessed wrong.
func (g *gen) firstLine(a *ahead, rows reg.GPVirtual) {
	off, span, size := g.param("aheadOff"), g.GP64(), g.param("aheadLines")
	g.MOVQ(op.Mem{Base: off}, a.p)
	g.MOVQ(op.Mem{Base: off, Index: rows, Scale: 8, Disp: -8}, span)
	g.SUBQ(a.p, span)
	g.ADDQ(g.paramMem("ahead"), a.p)
	g.MOVQ(rows, a.rows)
	g.MOVQ(size, a.left)
	g.SHLQ(op.U8(6), size)
	g.ADDQ(size, span)
	g.IMULQ(rows, size)
	g.CMPQ(span, size)
	g.JNE(op.LabelRef("apart"))
	g.MOVQ(imm(1), a.rows)
	g.IMULQ(rows, a.left)
	g.Label("apart")
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

// touch touches n lines, as far as there are: four a turn, then the rest of them.
func (a *ahead) touch(n reg.GPVirtual) {
	label := fmt.Sprintf("ahead%d", a.id())
	a.TESTQ(n, n)
	a.JZ(op.LabelRef(label + "done"))
	a.Label(label)
	now := a.GP64() // of n, those in this row
	a.MOVQ(a.left, now)
	a.CMPQ(n, now)
	a.CMOVQCS(n, now)
	a.SUBQ(now, a.left)
	a.SUBQ(now, n)
	a.SUBQ(imm(4), now)
	a.JCS(op.LabelRef(label + "fewer"))
	a.Label(label + "four")
	for i := range 4 {
		a.PREFETCHT1(op.Mem{Base: a.p, Disp: 64 * i})
	}
	a.ADDQ(imm(4*64), a.p)
	a.SUBQ(imm(4), now)
	a.JCC(op.LabelRef(label + "four"))
	a.Label(label + "fewer")
	a.ADDQ(imm(4), now)
	a.JZ(op.LabelRef(label + "touched"))
	a.Label(label + "one")
	a.PREFETCHT1(op.Mem{Base: a.p})
	a.ADDQ(imm(64), a.p)
	a.DECQ(now)
	a.JNZ(op.LabelRef(label + "one"))
	a.Label(label + "touched")
	a.TESTQ(a.left, a.left)
	a.JNZ(op.LabelRef(label + "done"))
	a.nextRow(label)
	a.TESTQ(n, n)
	a.JNZ(op.LabelRef(label))
	a.Label(label + "done")
}

// nextRow moves to the next row, or ends it all.
func (a *ahead) nextRow(label string) {
	row := a.left
	a.MOVQ(a.row, row)
	a.INCQ(row)
	a.MOVQ(row, a.row)
	a.CMPQ(row, a.rows)
	a.JLT(op.LabelRef(label + "row"))
	a.MOVQ(imm(0), a.per)
	a.JMP(op.LabelRef(label + "done"))
	a.Label(label + "row")
	a.MOVQ(a.paramMem("aheadOff"), a.p)
	a.MOVQ(op.Mem{Base: a.p, Index: row, Scale: 8}, a.p)
	a.ADDQ(a.paramMem("ahead"), a.p)
	a.MOVQ(a.paramMem("aheadLines"), a.left)
}
