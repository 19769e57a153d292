package main

import (
	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// splits is scores of keys of 32 bits for processors that do 512 bits in two halves: one
// key after the other, from front to back, half a line a load, which its prefetchers
// follow further than whole ones (docs/calibration.md). A row's sum is what a register
// of 512 bits would hold, in two of 256: bits are those of scores.
type splits struct{ scores }

// splitVectors are the pairs of vectors of a key that are scored without a branch.
const splitVectors = 8

func (g splits) emit() {
	g.begin()
	zero := g.zero()
	ahead := g.gen.ahead(g.steps())
	heads := g.walkHeads()
	s, j := g.param("s"), g.GP64()
	g.XORQ(j, j)
	walk := g.offsets()

	g.Label("key")
	ahead.step()
	lower, upper := g.vecs(g.rows), g.vecs(g.rows)
	for r := range g.rows {
		g.VMOVAPS(zero, lower[r])
		g.VMOVAPS(zero, upper[r])
	}
	k, left := g.param("k"), g.param("dim")
	g.ADDQ(walk.rel, k)
	q := g.gen.rows(g.rows, g.param("q"), g.param("dim"))
	g.eachWidth([]int{splitVectors, 1}, 16, left, func(w int) {
		for i := range w {
			g.add(op.Mem{Base: k, Disp: 64 * i}, 64*i, q, lower)
			g.add(op.Mem{Base: k, Disp: 64*i + 32}, 64*i+32, q, upper)
		}
		g.advance(q, 64*w)
		g.ADDQ(imm(64*w), k)
	})
	g.TESTQ(left, left)
	g.JZ(op.LabelRef("reduce"))
	g.rest(k, left, q, lower, upper)
	g.Label("reduce")
	g.store(g.reduce(lower, upper), s)
	g.ADDQ(imm(4), s)
	g.INCQ(j)
	g.CMPQ(j, g.paramMem("keys"))
	g.JGE(op.LabelRef("keysDone"))
	walk.next(g.param("off"), j)
	g.JMP(op.LabelRef("key"))
	g.Label("keysDone")
	heads.next()

	ahead.rest()
	g.VZEROUPPER()
	g.RET()
}

// steps is the number of keys.
func (g splits) steps() reg.GPVirtual {
	n := g.param("keys")
	g.timesHeads(n)
	return n
}

// add multiplies a vector of the key by that of each row that is so many bytes on.
func (g splits) add(m op.Mem, bytes int, q rows, sums []reg.VecVirtual) {
	x := g.vec()
	g.VMOVUPS(m, x)
	for r, sum := range sums {
		g.VFMADD231PS(disp(q.at(r), bytes), x, sum)
	}
}

// rest takes the last dim mod 16 elements.
func (g splits) rest(k, left reg.GPVirtual, q rows, lower, upper []reg.VecVirtual) {
	first, _ := g.tailMask(left)
	second := g.K()
	g.KSHIFTRW(op.U8(8), first, second)
	for i, mask := range []reg.OpmaskVirtual{first, second} {
		x := g.vec()
		g.VMOVUPS_Z(op.Mem{Base: k, Disp: 32 * i}, mask, x)
		for r := range g.rows {
			y := g.vec()
			g.VMOVUPS_Z(disp(q.at(r), 32*i), mask, y)
			g.VFMADD231PS(y, x, [][]reg.VecVirtual{lower, upper}[i][r])
		}
	}
}

// reduce sums the lanes of each row, in the order of scores: element r is row r's.
func (g splits) reduce(lower, upper []reg.VecVirtual) reg.Register {
	v := g.lanesOf128(lower)
	g.VADDPS(g.lanesOf128(upper), v, v)
	x, sum := g.XMM(), g.XMM()
	g.VEXTRACTF128(op.U8(1), v, x)
	g.VADDPS(x, v.AsX(), sum)
	return sum
}

// lanesOf128 sums the four lanes of each 128 bits, for up to four rows.
func (g splits) lanesOf128(v []reg.VecVirtual) reg.VecVirtual {
	v = g.pairs(v, func(a, b, lo, hi reg.VecVirtual) { g.VUNPCKLPS(b, a, lo); g.VUNPCKHPS(b, a, hi) })
	v = g.pairs(v, func(a, b, lo, hi reg.VecVirtual) { g.VUNPCKLPD(b, a, lo); g.VUNPCKHPD(b, a, hi) })
	return v[0]
}

// store writes a key's scores of all rows.
func (g splits) store(x reg.Register, s reg.GPVirtual) {
	by, row := g.param("stride"), g.GP64()
	g.SHLQ(op.U8(2), by)
	g.VMOVSS(x, op.Mem{Base: s})
	g.LEAQ(op.Mem{Base: s, Index: by, Scale: 1}, row)
	for r := 1; r < g.rows; r++ {
		m := op.Mem{Base: row}
		if r > 1 {
			m.Index, m.Scale = by, uint8(r-1)
		}
		g.VEXTRACTPS(op.U8(uint8(r)), x, m)
	}
}
