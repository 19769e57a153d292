package main

import (
	"math"
	"math/bits"

	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func float32bits(x float32) uint32 { return math.Float32bits(x) }

func log2(n int) uint8 { return uint8(bits.TrailingZeros(uint(n))) }

// reduce sums the lanes of each accumulator: element i of the result is the sum
// of acc[i]. Every step adds two shuffles of two vectors, so it halves their
// number while sums stay in order.
func (g scores) reduce(acc []reg.VecVirtual) reg.VecVirtual {
	v := acc
	v = g.pairs(v, func(a, b, lo, hi reg.VecVirtual) { g.VUNPCKLPS(b, a, lo); g.VUNPCKHPS(b, a, hi) })
	v = g.pairs(v, func(a, b, lo, hi reg.VecVirtual) { g.VUNPCKLPD(b, a, lo); g.VUNPCKHPD(b, a, hi) })
	// Each 128 bits now hold partial sums of four accumulators.
	if g.lanes == 16 {
		v = g.pairs(v, func(a, b, lo, hi reg.VecVirtual) {
			g.VSHUFF32X4(op.U8(0x44), b, a, lo)
			g.VSHUFF32X4(op.U8(0xee), b, a, hi)
		})
		v = g.pairs(v, func(a, b, lo, hi reg.VecVirtual) {
			g.VSHUFF32X4(op.U8(0x88), b, a, lo)
			g.VSHUFF32X4(op.U8(0xdd), b, a, hi)
		})
	} else {
		v = g.pairs(v, func(a, b, lo, hi reg.VecVirtual) {
			g.VPERM2F128(op.U8(0x20), b, a, lo)
			g.VPERM2F128(op.U8(0x31), b, a, hi)
		})
	}
	if g.e.scale != 1 {
		g.VMULPS(g.broadcast(float32bits(g.e.scale)), v[0], v[0])
	}
	return v[0]
}

// pairs joins neighbours; a vector without one is its own.
func (g scores) pairs(v []reg.VecVirtual, shuffle func(a, b, lo, hi reg.VecVirtual)) []reg.VecVirtual {
	var sums []reg.VecVirtual
	for i := 0; i < len(v); i += 2 {
		lo, hi := g.vec(), g.vec()
		shuffle(v[i], v[min(i+1, len(v)-1)], lo, hi)
		g.VADDPS(lo, hi, lo)
		sums = append(sums, lo)
	}
	return sums
}

// store writes the sums of the block at key j, row-major [rows][keys], to s
// (already at key j), and no more keys than there are.
func (g scores) store(sums reg.VecVirtual, s, j reg.GPVirtual) {
	by := g.param("stride")
	g.SHLQ(op.U8(2), by)
	row, left := g.GP64(), g.param("keys")
	g.MOVQ(s, row)
	g.SUBQ(j, left)
	if g.keys == 2 {
		g.storePairs(sums, row, by, left)
		return
	}
	g.CMPQ(left, imm(g.keys))
	g.JLT(op.LabelRef("part"))
	g.eachRow(sums, row, by, func(v reg.Register) { g.VMOVUPS(v, op.Mem{Base: row}) })
	g.JMP(op.LabelRef("stored"))
	g.Label("part")
	part := g.partStore(left)
	g.eachRow(sums, row, by, func(v reg.Register) { part(v, op.Mem{Base: row}) })
	g.Label("stored")
}

// partStore stores the first `left` elements of a row.
func (g scores) partStore(left reg.GPVirtual) func(v reg.Register, m op.Mem) {
	if g.lanes == 16 {
		mask, _ := g.tailMask(left)
		return func(v reg.Register, m op.Mem) { g.VMOVUPS(v, mask, m) }
	}
	ones := uint32(0xffffffff)
	base, mask := g.GP64(), g.XMM()
	g.LEAQ(g.table("firstLanes", ones, ones, ones, ones, 0, 0, 0, 0), base)
	neg := g.GP64()
	g.MOVQ(left, neg)
	g.NEGQ(neg)
	g.VMOVDQU(op.Mem{Base: base, Index: neg, Scale: 4, Disp: 16}, mask)
	return func(v reg.Register, m op.Mem) { g.VMASKMOVPS(v, mask, m) }
}

// eachRow calls f with each row's sums, 4 or 8 of them, row moving along.
func (g scores) eachRow(sums reg.VecVirtual, row, by reg.GPVirtual, f func(v reg.Register)) {
	for r := range g.rows {
		switch {
		case g.keys == 8 && r == 0:
			f(sums.AsY())
		case g.keys == 8:
			y := g.YMM()
			g.VEXTRACTF64X4(op.U8(1), sums, y)
			f(y)
		default:
			f(g.quarter(sums, r))
		}
		if r < g.rows-1 {
			g.ADDQ(by, row)
		}
	}
}

// quarter is 128 bits of a vector.
func (g scores) quarter(v reg.VecVirtual, i int) reg.Register {
	if i == 0 {
		return v.AsX()
	}
	x := g.XMM()
	if g.lanes == 16 {
		g.VEXTRACTF32X4(op.U8(uint8(i)), v, x)
	} else {
		g.VEXTRACTF128(op.U8(uint8(i)), v, x)
	}
	return x
}

// storePairs stores two keys a row, or one where one is left: 128 bits hold two
// rows.
func (g scores) storePairs(sums reg.VecVirtual, row, by, left reg.GPVirtual) {
	g.CMPQ(left, op.Imm(2))
	g.JLT(op.LabelRef("part"))
	for r := 0; r < g.rows; r += 2 {
		x := g.quarter(sums, r/2)
		g.VMOVLPS(x, op.Mem{Base: row})
		g.VMOVHPS(x, op.Mem{Base: row, Index: by, Scale: 1})
		g.LEAQ(op.Mem{Base: row, Index: by, Scale: 2}, row)
	}
	g.JMP(op.LabelRef("stored"))
	g.Label("part")
	for r := 0; r < g.rows; r += 2 {
		x := g.quarter(sums, r/2)
		g.VMOVSS(x, op.Mem{Base: row})
		g.VEXTRACTPS(op.U8(2), x, op.Mem{Base: row, Index: by, Scale: 1})
		g.LEAQ(op.Mem{Base: row, Index: by, Scale: 2}, row)
	}
	g.Label("stored")
}

func imm(n int) op.Op { return op.I32(int32(n)) }
