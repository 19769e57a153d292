package main

import (
	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// beside fetches a line with every line that is read, where rows lie one behind the other and what is
// ahead of them does, as much of it: all lines are then equally far ahead. Fetched so evenly, lines do
// not wait for one another's buffers (docs/calibration.md). Where rows lie otherwise, ahead has it all,
// and what is touched is the line that is read.
type beside struct {
	*gen
	by reg.GPVirtual // an eighth of the bytes from a line to what is fetched with it
	in op.Mem        // the same
}

// leastBeside is the least part of a row, in bytes, that a pass of sums takes with what is ahead of it: of one line
// of each row, not in the order of memory, the hardware's prefetcher makes nothing (docs/calibration.md).
const leastBeside = 128

// mostBeside is the most bytes that lines are ahead; what is farther away is another sequence's.
const mostBeside = 128 << 10

// beside begins, before ahead, from which it takes what it fetches, and before walkHeads. The parameter
// is where rows of type e are.
func (g *gen) beside(e elem, param string) *beside {
	if !g.evenly {
		return nil
	}
	b := &beside{gen: g, in: g.AllocLocal(8)}
	g.MOVQ(imm(0), b.in)
	list := g.param("heads")
	g.TESTQ(list, list)
	g.JZ(op.LabelRef("oneBeside"))
	g.CMPQ(op.Mem{Base: list, Disp: headsTiles}, imm(0))
	g.JEQ(op.LabelRef("notBeside"))
	g.Label("oneBeside")
	runs, size := g.param("aheadKeys"), g.param("aheadLines")
	g.TESTQ(runs, runs)
	g.JZ(op.LabelRef("notBeside"))
	row, rows, total := g.param("dim"), g.param("keys"), g.GP64()
	g.SHLQ(op.U8(log2(e.bits/8)), row)
	g.SHLQ(op.U8(6), size)
	g.MOVQ(rows, total)
	g.IMULQ(row, total)
	first := g.inOneRun("off", rows, row, total)
	ahead := g.inOneRun("aheadOff", runs, size, total)
	g.IMULQ(size, runs)
	g.CMPQ(runs, total)
	g.JNE(op.LabelRef("notBeside"))
	g.ADDQ(g.paramMem("ahead"), ahead)
	g.SUBQ(first, ahead)
	g.SUBQ(g.paramMem(param), ahead)
	g.CMPQ(ahead, imm(mostBeside))
	g.JCC(op.LabelRef("notBeside"))
	g.SHRQ(op.U8(3), ahead)
	g.MOVQ(ahead, b.in)
	g.MOVQ(imm(0), g.paramMem("aheadKeys"))
	g.Label("notBeside")
	return b
}

// inOneRun goes on with the first of the n offsets in a list of what is of a size each, where the last
// one ends so many bytes behind it.
func (g *gen) inOneRun(list string, n, size, total reg.GPVirtual) (first reg.GPVirtual) {
	off, end := g.param(list), g.GP64()
	first = g.GP64()
	g.MOVQ(op.Mem{Base: off}, first)
	g.MOVQ(op.Mem{Base: off, Index: n, Scale: 8, Disp: -8}, end)
	g.SUBQ(first, end)
	g.ADDQ(size, end)
	g.CMPQ(end, total)
	g.JNE(op.LabelRef("notBeside"))
	return first
}

// load makes by ready.
func (b *beside) load() {
	if b != nil {
		b.by = b.GP64()
		b.MOVQ(b.in, b.by)
	}
}

// touch fetches what belongs to the lines that begin among size bytes at m, which has no index yet; near: and those an
// eighth as far ahead, which have come to the second cache, into the first.
func (b *beside) touch(m op.Mem, size int, near bool) {
	if b == nil || m.Disp%64 != 0 {
		return
	}
	m.Index = b.by
	for i := 0; i < size; i += 64 {
		m.Scale = 8
		b.PREFETCHT1(disp(m, i))
		if near {
			m.Scale = 1
			b.PREFETCHT0(disp(m, i))
		}
	}
}
