package main

import (
	"fmt"

	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// offsets walks the row offsets of a tile. It guesses that the next row lies as
// far on as the second from the first, and only compares the guess with the list:
// addresses then do not wait for a load, which queues behind the cache misses of
// the rows before it and halves the bandwidth. A wrong guess is a mispredicted
// branch, once a page.
type offsets struct {
	*gen
	rel   reg.GPVirtual // the next row's offset
	guess reg.GPVirtual // how far apart rows are
}

// offsets starts at the first row.
func (g *gen) offsets() *offsets {
	o := &offsets{gen: g, rel: g.GP64(), guess: g.GP64()}
	off, one := g.param("off"), g.GP64()
	g.MOVQ(op.Mem{Base: off}, o.rel)
	// The second row's offset, or the first's where there is one row.
	g.XORL(one.As32(), one.As32())
	g.CMPQ(g.paramMem("keys"), imm(1))
	g.SETGT(one.As8())
	g.MOVQ(op.Mem{Base: off, Index: one, Scale: 8}, o.guess)
	g.SUBQ(o.rel, o.guess)
	return o
}

// next moves from row j−1 to row j, which the tile must have.
func (o *offsets) next(off, j reg.GPVirtual) {
	label := fmt.Sprintf("offset%d", o.id())
	o.ADDQ(o.guess, o.rel)
	o.CMPQ(o.rel, op.Mem{Base: off, Index: j, Scale: 8})
	o.JEQ(op.LabelRef(label))
	o.MOVQ(op.Mem{Base: off, Index: j, Scale: 8}, o.rel)
	o.Label(label)
}
