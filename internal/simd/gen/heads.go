package main

import (
	"slices"

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
	headsTiles // a flag
)

// heads walks KV heads that go side by side: a stretch of keys of each head in turn,
// then the next stretch, as they lie in pages. A kernel is the body of that loop, for one
// head's stretch; what it reads of its parameters is the stretch's. Without heads there
// is one stretch, all keys of one head. Stretches may be tiles of one head, too, each with
// a sum of its own.
type heads struct {
	*gen
	moves []move
	head  op.Mem // this and those behind it
	rest  op.Mem // keys after this stretch
	begun op.Mem // 0 in a tile's first stretch
	aside op.Mem // 0 in its last one
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
	h := &heads{gen: g, moves: moves, head: g.AllocLocal(8), rest: g.AllocLocal(8), begun: g.AllocLocal(8), aside: g.AllocLocal(8)}
	g.MOVQ(imm(0), h.begun)
	g.MOVQ(imm(0), h.aside)
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
	tiles := h.GP64()
	h.MOVQ(op.Mem{Base: list, Disp: headsTiles}, tiles)
	h.XORL(n.As32(), n.As32())
	h.TESTQ(tiles, tiles)
	h.CMOVQNE(n, left)
	h.MOVQ(left, h.aside)
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
	h.begin(list)
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

// begin notes that the next stretch is not a tile's first one; or, where stretches are
// tiles, lets o, which has come down to the first one's m, be.
func (h *heads) begin(list reg.GPVirtual) {
	if !slices.ContainsFunc(h.moves, func(m move) bool { return m.param == "alpha" }) {
		return
	}
	h.CMPQ(op.Mem{Base: list, Disp: headsTiles}, imm(0))
	h.JNE(op.LabelRef("tiles"))
	h.MOVQ(imm(1), h.begun)
	h.JMP(op.LabelRef("begun"))
	h.Label("tiles")
	ones := h.GP64()
	h.LEAQ(h.table("ones", repeat(float32bits(1), 16)...), ones)
	h.MOVQ(ones, h.paramMem("alpha"))
	h.Label("begun")
}

// timesHeads makes n, steps of one head, those of all.
func (g *gen) timesHeads(n reg.GPVirtual) {
	list := g.param("heads")
	g.TESTQ(list, list)
	g.JZ(op.LabelRef("oneHead"))
	g.IMULQ(op.Mem{Base: list, Disp: headsN}, n)
	g.Label("oneHead")
}
