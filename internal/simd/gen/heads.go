package main

import (
	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const headsArg = "heads *int"

// Words of simd.Heads, in bytes from where it begins.
const (
	headsN      = 8 * iota
	headsPitch  // bytes
	headsScores // elements, as all that follow but the last two
	headsRows
	headsAlpha
	headsPartial
	headsFirst // keys
	headsRun
)

// heads walks KV heads that go side by side: a stretch of keys of each head in turn,
// then the next stretch, as they lie in pages. A kernel is the body of that loop, for one
// head's stretch; what it reads of its parameters is the stretch's. Without heads there
// is one stretch, all keys of one head.
type heads struct {
	*gen
	moves []move
	head  op.Mem // this and those behind it
	rest  op.Mem // keys after this stretch
	begun op.Mem // 0 in the first stretch
}

// move says by how much a parameter, a pointer, moves: from head to head, by so many
// times a word of simd.Heads, and so many bytes a key.
type move struct {
	param       string
	word, times int
	key         int
}

// heads begins the loop. Only then do parameters tell the first stretch.
func (g *gen) heads(moves ...move) *heads {
	h := &heads{gen: g, moves: moves, head: g.AllocLocal(8), rest: g.AllocLocal(8), begun: g.AllocLocal(8)}
	g.MOVQ(imm(0), h.rest)
	g.MOVQ(imm(0), h.begun)
	list := g.param("heads")
	g.TESTQ(list, list)
	g.JZ(op.LabelRef("stretch"))
	h.stretch(list, g.param("keys"), headsFirst)
	g.Label("stretch")
	return h
}

// stretch makes as many of the keys that are left a stretch as a word says.
func (h *heads) stretch(list, left reg.GPVirtual, word int) {
	n := h.GP64()
	h.MOVQ(op.Mem{Base: list, Disp: word}, n)
	h.CMPQ(left, n)
	h.CMOVQLT(left, n)
	h.MOVQ(n, h.paramMem("keys"))
	h.SUBQ(n, left)
	h.MOVQ(left, h.rest)
	h.MOVQ(op.Mem{Base: list, Disp: headsN}, n)
	h.MOVQ(n, h.head)
}

// next ends the loop's body.
func (h *heads) next() {
	list, by := h.param("heads"), h.GP64()
	h.TESTQ(list, list)
	h.JZ(op.LabelRef("stretched"))
	h.DECQ(h.head)
	h.JZ(op.LabelRef("heads"))
	for _, m := range h.moves {
		if m.word == 0 {
			continue
		}
		h.MOVQ(op.Mem{Base: list, Disp: m.word}, by)
		h.SHLQ(op.U8(log2(m.times)), by)
		h.ADDQ(by, h.paramMem(m.param))
	}
	h.JMP(op.LabelRef("stretch"))

	h.Label("heads") // back to the first head, a stretch on
	left := h.GP64()
	h.MOVQ(h.rest, left)
	h.TESTQ(left, left)
	h.JZ(op.LabelRef("stretched"))
	h.MOVQ(imm(1), h.begun)
	for _, m := range h.moves {
		if m.word != 0 {
			h.MOVQ(op.Mem{Base: list, Disp: headsN}, by)
			h.DECQ(by)
			h.IMULQ(op.Mem{Base: list, Disp: m.word}, by)
			h.SHLQ(op.U8(log2(m.times)), by)
			h.SUBQ(by, h.paramMem(m.param))
		}
		if m.key != 0 {
			h.MOVQ(h.paramMem("keys"), by)
			h.SHLQ(op.U8(log2(m.key)), by)
			h.ADDQ(by, h.paramMem(m.param))
		}
	}
	h.stretch(list, left, headsRun)
	h.JMP(op.LabelRef("stretch"))
	h.Label("stretched")
}

// timesHeads makes n, steps of one head, those of all.
func (g *gen) timesHeads(n reg.GPVirtual) {
	list := g.param("heads")
	g.TESTQ(list, list)
	g.JZ(op.LabelRef("oneHead"))
	g.IMULQ(op.Mem{Base: list, Disp: headsN}, n)
	g.Label("oneHead")
}
