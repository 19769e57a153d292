package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// turns is accumulate for so many rows, an even number, that registers do not hold
// their sums: a few keys' values meet two rows, then the next two, and what rows have
// come to waits in the frame. Memory is read from front to back, which the hardware's
// prefetcher follows, where passes over parts of all values are not
// (docs/calibration.md). Sums are those of accumulate, bit for bit. Values are loaded once
// a turn, so that it is for types that need no unpacking.
//
// Rows are a multiple of turnVectors vectors.
type turns struct{ accumulate }

const (
	turnRows    = 2
	turnVectors = 8
)

// fewRows says that memory bounds a turn, not its multiplications.
func (g turns) fewRows() bool { return g.rows <= 4 }

// turnKeys are the keys of a turn: of few rows so few that nearly all of the time values
// are being read, though sums are stored and loaded the more often; of more rows as many
// as what they read stays in the first cache for (docs/calibration.md).
func (g turns) turnKeys() int {
	if g.fewRows() {
		return 2
	}
	return 8
}

func turnsFile(g *gen) {
	for _, e := range g.elems() {
		for _, r := range g.blocks {
			turns{accumulate{gen: g, e: e, rows: r}}.emit()
		}
	}
}

func (g turns) emit() {
	g.begin()
	g.Attributes(attr.Attribute(0)) // the frame is too large for a function that does not split the stack
	load := g.loader(g.e)
	room, sums := g.room(), g.AllocLocal(8)
	at, left, o := g.AllocLocal(8), g.AllocLocal(8), g.AllocLocal(8)
	ahead := g.gen.ahead(g.steps())
	g.walk = g.walkHeads()
	g.MOVQ(g.param("o"), o)
	g.MOVQ(imm(0), at)
	g.MOVQ(g.param("dim"), left)
	g.sumsAt(room, sums)

	g.Label("part")
	g.clear(sums)
	walk := g.offsets()
	j := g.GP64()
	g.XORQ(j, j)
	g.Label("turn")
	begin, first, end := g.AllocLocal(8), g.AllocLocal(8), g.AllocLocal(8)
	g.MOVQ(walk.rel, begin)
	g.MOVQ(j, first)
	g.keysOfTurn(j, end)
	row, rowSums, pairs := g.param("p"), g.GP64(), g.AllocLocal(8)
	g.MOVQ(sums, rowSums)
	g.MOVQ(imm(g.rows/turnRows), pairs)
	g.Label("rows")
	if g.fewRows() {
		ahead.step()
	}
	g.MOVQ(begin, walk.rel)
	g.MOVQ(first, j)
	acc := g.vecs(turnRows * turnVectors)
	g.eachSum(rowSums, acc, func(m op.Mem, a reg.VecVirtual) { g.VMOVUPS(m, a) })
	g.keys(load, walk, j, at, end, row, acc, func() {
		if !g.fewRows() {
			g.stepOfLast(pairs, ahead)
		}
	})
	g.eachSum(rowSums, acc, func(m op.Mem, a reg.VecVirtual) { g.VMOVUPS(a, m) })
	g.ADDQ(imm(64*len(acc)), rowSums)
	by := g.param("stride")
	g.LEAQ(op.Mem{Base: row, Index: by, Scale: 8}, row)
	g.DECQ(pairs)
	g.JNZ(op.LabelRef("rows"))
	g.CMPQ(j, g.paramMem("keys"))
	g.JLT(op.LabelRef("turn"))

	g.CMPQ(g.walk.aside, imm(0))
	g.JNE(op.LabelRef("aside"))
	g.updates(sums, o)
	g.Label("aside")
	g.nextSums(sums)
	g.ADDQ(imm(4*turnVectors*g.lanes), o)
	g.ADDQ(imm(turnVectors*g.vecBytes(g.e)), at)
	g.SUBQ(imm(turnVectors*g.lanes), left)
	g.JG(op.LabelRef("part"))
	g.walk.next()
	ahead.rest()
	g.VZEROUPPER()
	g.RET()
}

// room is the address, in the frame, of room for [rows][turnVectors] sums, aligned to
// lines.
func (g turns) room() op.Mem {
	room, at, p := g.AllocLocal(64*(g.rows*turnVectors+1)), g.AllocLocal(8), g.GP64()
	g.LEAQ(room.Offset(63), p)
	g.ANDQ(imm(-64), p)
	g.MOVQ(p, at)
	return at
}

// sumsAt finds the head's sums: in the frame, or where those of heads side by side are
// put aside, [dim / 128][rows][turnVectors].
func (g turns) sumsAt(room, sums op.Mem) {
	p, list, by := g.GP64(), g.param("heads"), g.GP64()
	g.MOVQ(room, p)
	g.TESTQ(list, list)
	g.JZ(op.LabelRef("inFrame"))
	g.MOVQ(op.Mem{Base: list, Disp: headsPartial}, by)
	g.TESTQ(by, by)
	g.JZ(op.LabelRef("inFrame"))
	g.MOVQ(g.paramMem("o"), p)
	g.LEAQ(op.Mem{Base: p, Index: by, Scale: 4}, p)
	g.Label("inFrame")
	g.MOVQ(p, sums)
}

// nextSums goes to the sums of the next part of rows.
func (g turns) nextSums(sums op.Mem) {
	list := g.param("heads")
	g.TESTQ(list, list)
	g.JZ(op.LabelRef("sameSums"))
	g.CMPQ(op.Mem{Base: list, Disp: headsPartial}, imm(0))
	g.JEQ(op.LabelRef("sameSums"))
	g.ADDQ(imm(64*g.rows*turnVectors), sums)
	g.Label("sameSums")
}

// clear begins sums, those aside only in the first stretch.
func (g turns) clear(sums op.Mem) {
	g.CMPQ(g.walk.begun, imm(0))
	g.JNE(op.LabelRef("resumed"))
	zero, p := g.zero(), g.GP64()
	g.MOVQ(sums, p)
	for i := range g.rows * turnVectors {
		g.VMOVUPS(zero, op.Mem{Base: p, Disp: 64 * i})
	}
	g.Label("resumed")
}

// eachSum does something with each of the registers and its place from p on.
func (g turns) eachSum(p reg.GPVirtual, acc []reg.VecVirtual, do func(m op.Mem, a reg.VecVirtual)) {
	for i, a := range acc {
		do(op.Mem{Base: p, Disp: 64 * i}, a)
	}
}

// steps is how often lines are touched ahead: of few rows in every turn of a pair, of more
// at each key of the last pair, while no value comes from memory.
func (g turns) steps() reg.GPVirtual {
	n, stretches := g.param("keys"), g.param("dim")
	if g.fewRows() {
		g.ADDQ(imm(g.turnKeys()-1), n)
		g.SHRQ(op.U8(log2(g.turnKeys())), n)
		g.IMUL3Q(imm(g.rows/turnRows), n, n)
	}
	g.SHRQ(op.U8(log2(turnVectors*g.lanes)), stretches)
	g.IMULQ(stretches, n)
	g.timesHeads(n)
	return n
}

// stepOfLast touches a step's lines in the turn of the last pair.
func (g turns) stepOfLast(pairs op.Mem, ahead *ahead) {
	label := fmt.Sprintf("notLast%d", g.id())
	g.CMPQ(pairs, imm(1))
	g.JNE(op.LabelRef(label))
	ahead.step()
	g.Label(label)
}

// keysOfTurn puts down where the turn that begins at key j ends.
func (g turns) keysOfTurn(j reg.GPVirtual, end op.Mem) {
	next, keys := g.GP64(), g.param("keys")
	g.LEAQ(op.Mem{Base: j, Disp: g.turnKeys()}, next)
	g.CMPQ(keys, next)
	g.CMOVQLT(keys, next)
	g.MOVQ(next, end)
}

// keys takes a turn's values, from byte `at` of each on, into two rows' sums.
func (g turns) keys(load *loader, walk *offsets, j reg.GPVirtual, at, end op.Mem, row reg.GPVirtual, acc []reg.VecVirtual, each func()) {
	label := fmt.Sprintf("keys%d", g.id())
	base, other, off, v := g.param("v"), g.param("stride"), g.param("off"), g.GP64()
	g.ADDQ(at, base)
	g.LEAQ(op.Mem{Base: row, Index: other, Scale: 4}, other)
	g.Label(label)
	each()
	g.LEAQ(op.Mem{Base: base, Index: walk.rel, Scale: 1}, v)
	weight := g.vec()
	g.VBROADCASTSS(op.Mem{Base: row, Index: j, Scale: 4}, weight)
	for i := range turnVectors {
		x := g.vec()
		load.load(op.Mem{Base: v, Disp: i * g.vecBytes(g.e)}, x)
		g.VFMADD231PS(weight, x, acc[i])
		g.VFMADD231PS_BCST(op.Mem{Base: other, Index: j, Scale: 4}, x, acc[turnVectors+i])
	}
	g.INCQ(j)
	g.CMPQ(j, g.paramMem("keys"))
	g.JGE(op.LabelRef(label + "done"))
	walk.next(off, j)
	g.CMPQ(j, end)
	g.JLT(op.LabelRef(label))
	g.Label(label + "done")
}

// updates is o = o·α + sums of all rows, with o not read where α is 0.
func (g turns) updates(sums, o op.Mem) {
	row, alpha, p, by, left := g.GP64(), g.param("alpha"), g.GP64(), g.param("dim"), g.GP64()
	g.MOVQ(o, row)
	g.MOVQ(sums, p)
	g.SHLQ(op.U8(2), by)
	g.MOVQ(imm(g.rows), left)
	zero := g.zero()
	g.Label("update")
	a, live := g.vec(), g.K()
	g.VBROADCASTSS(op.Mem{Base: alpha}, a)
	g.VCMPPS(op.U8(notEqual), zero, a, live)
	for i := range turnVectors {
		m, sum, old := op.Mem{Base: row, Disp: 64 * i}, g.vec(), g.vec()
		g.VMOVUPS(op.Mem{Base: p, Disp: 64 * i}, sum)
		g.VMOVUPS_Z(m, live, old)
		g.VFMADD231PS(old, a, sum)
		g.VMOVUPS(sum, m)
	}
	g.ADDQ(by, row)
	g.ADDQ(imm(4), alpha)
	g.ADDQ(imm(64*turnVectors), p)
	g.DECQ(left)
	g.JNZ(op.LabelRef("update"))
}
