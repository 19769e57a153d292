package main

import (
	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// eights is quads for keys in 8-bit floats and queries that bfloat16 holds: codes become bfloat16,
// 64 at a time, and are not widened further. One VDPBF16PS multiplies 32 of them, and rounds no
// product.
//
// A row of q is in the order that looking codes up has: of each 64 elements, the first 8 of each 16,
// then the others (simd.Pairs). As dim it counts pairs.
type eights struct {
	quads
	codes *lookups
}

const (
	eightVectors = 2  // of 64 elements in bfloat16
	eightPairs   = 32 // of 64 elements
)

func (g eights) emit() {
	g.begin()
	g.codes = g.lookups(g.e).resident()
	zero := g.zero()
	s, j := g.AllocLocal(8), g.AllocLocal(8)
	ahead := g.gen.ahead(g.steps())
	heads := g.walkHeads()
	g.MOVQ(g.param("s"), s)
	g.MOVQ(imm(0), j)
	walk := g.offsets()

	g.Label("block")
	ahead.step()
	acc := g.vecs(g.rows * quadKeys)
	for _, a := range acc {
		g.VMOVAPS(zero, a)
	}
	ptr := g.pointers(walk, j)
	q := g.gen.rows(g.rows, g.param("q"), g.param("dim"))
	left := g.param("dim")
	g.eachWidth(g.scoreWidths[g.rows], eightPairs, left, func(w int) {
		g.lines(w, ptr, q, acc)
		g.advance(q, 4*w*eightPairs)
		for _, p := range ptr {
			g.ADDQ(imm(w*lookupCodes), p)
		}
	})
	g.store(acc, s, j)
	g.ADDQ(imm(4*quadKeys), s)
	g.MOVQ(j, left)
	g.ADDQ(imm(quadKeys), left)
	g.MOVQ(left, j)
	g.CMPQ(left, g.paramMem("keys"))
	g.JLT(op.LabelRef("block"))
	heads.next()

	ahead.rest()
	g.VZEROUPPER()
	g.RET()
}

// steps is the number of blocks.
func (g eights) steps() reg.GPVirtual {
	n := g.param("keys")
	g.ADDQ(imm(quadKeys-1), n)
	g.SHRQ(op.U8(log2(quadKeys)), n)
	g.timesHeads(n)
	return n
}

// lines takes w lines of the four keys: all of a key, then the next, for one row, whose vectors stay
// in registers; else one of each key, which meet all rows.
func (g eights) lines(w int, ptr []reg.GPVirtual, q rows, acc []reg.VecVirtual) {
	if g.rows == 1 {
		y := g.vecs(w * eightVectors)
		for i := range y {
			g.VMOVUPS(disp(q.at(0), 64*i), y[i])
		}
		for c, p := range ptr {
			for i := range w {
				for half, x := range g.numbers(op.Mem{Base: p, Disp: lookupCodes * i}) {
					g.dot(y[eightVectors*i+half], x, acc[c])
				}
			}
		}
		return
	}
	for i := range w {
		var x [quadKeys][]reg.VecVirtual
		for c, p := range ptr {
			x[c] = g.numbers(op.Mem{Base: p, Disp: lookupCodes * i})
		}
		for r := range g.rows {
			for half := range eightVectors {
				y := g.vec()
				g.VMOVUPS(disp(q.at(r), 64*(eightVectors*i+half)), y)
				for c := range ptr {
					g.dot(y, x[c][half], acc[r*quadKeys+c])
				}
			}
		}
	}
}

// numbers are the bfloat16 of 64 codes at m.
func (g eights) numbers(m op.Mem) []reg.VecVirtual {
	codes, x := g.vec(), g.vecs(eightVectors)
	g.VMOVDQU32(m, codes)
	g.codes.numbers(codes, x[0], x[1])
	return x
}
