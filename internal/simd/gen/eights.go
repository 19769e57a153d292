package main

import (
	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// eights is quads for keys in 8-bit floats and queries that bfloat16 holds: codes become bfloat16,
// 64 at a time, and are not widened further. One VDPBF16PS multiplies 32 of them, and rounds no
// product.
//
// Codes of two keys are interleaved by fours before they are looked up: then two lanes of each four are
// one key's, and half as many vectors of sums are to be put together. A row of q has each two pairs
// twice for that, in the order that looking codes up has (simd.Pairs).
type eights struct {
	quads
	codes *lookups
}

// eightVectors are those that 64 codes of each of two keys become.
const eightVectors = 4

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
	acc := g.vecs(g.rows * g.sums())
	for _, a := range acc {
		g.VMOVAPS(zero, a)
	}
	ptr := g.pointers(walk, j)
	q := g.gen.rows(g.rows, g.param("q"), g.param("dim"))
	left := g.param("dim")
	g.eachWidth(g.scoreWidths[g.rows], lookupCodes, left, func(w int) {
		for c := 0; c < quadKeys; c += 2 {
			g.lines(w, ptr[c:c+2], q, acc[c/2:])
		}
		g.advance(q, 4*w*lookupCodes)
		for _, p := range ptr {
			g.ADDQ(imm(w*lookupCodes), p)
		}
	})
	g.storeRows([]reg.VecVirtual{g.byRows(acc)}, s, j)
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

// sums are the vectors of a row's sums: of the first two keys, of the others, and, where rows are too few
// to hide the latency of VDPBF16PS, more of both.
func (g eights) sums() int { return quadKeys / 2 * max(1, 4/g.rows) }

// lines takes w lines of two keys, one key after the other, and adds their products to every other vector of a
// row's sums.
func (g eights) lines(w int, ptr []reg.GPVirtual, q rows, acc []reg.VecVirtual) {
	a, b := g.vecs(w), g.vecs(w)
	for c, key := range [][]reg.VecVirtual{a, b} {
		for i, codes := range key {
			g.VMOVDQU32(op.Mem{Base: ptr[c], Disp: lookupCodes * i}, codes)
		}
	}
	for i := range w {
		for n, x := range g.numbers(a[i], b[i]) {
			for r := range g.rows {
				g.dot(disp(q.at(r), 64*(eightVectors*i+n)), x, acc[r*g.sums()+2*n%g.sums()])
			}
		}
	}
}

// numbers are the bfloat16 of 64 codes of two keys, by fours: of each 16 codes the first four of one and of the
// other, then the next.
func (g eights) numbers(a, b reg.VecVirtual) []reg.VecVirtual {
	lower, upper, x := g.vec(), g.vec(), g.vecs(eightVectors)
	g.VPUNPCKLDQ(b, a, lower)
	g.VPUNPCKHDQ(b, a, upper)
	g.codes.numbers(lower, x[0], x[1])
	g.codes.numbers(upper, x[2], x[3])
	return x
}

// byRows puts sums together: each 128 bits are a row's, of the four keys.
func (g eights) byRows(acc []reg.VecVirtual) reg.VecVirtual {
	var v []reg.VecVirtual
	for r := range g.rows {
		a := acc[r*g.sums():][:g.sums()]
		for i := 2; i < len(a); i++ {
			g.VADDPS(a[i], a[i%2], a[i%2])
		}
		v = append(v, a[:2]...)
	}
	return g.sumQuarters(g.pairs(v, func(a, b, lo, hi reg.VecVirtual) {
		g.VSHUFPS(op.U8(0x88), b, a, lo)
		g.VSHUFPS(op.U8(0xdd), b, a, hi)
	}))
}
