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
		v[0] = g.sumQuarters(v)
	} else if g.quads || g.paired { // of 32 registers, where VPERM2F128 knows 16
		v = g.pairs(v, func(a, b, lo, hi reg.VecVirtual) {
			g.VSHUFF32X4(op.U8(0), b, a, lo)
			g.VSHUFF32X4(op.U8(3), b, a, hi)
		})
	} else {
		v = g.pairs(v, func(a, b, lo, hi reg.VecVirtual) {
			g.VPERM2F128(op.U8(0x20), b, a, lo)
			g.VPERM2F128(op.U8(0x31), b, a, hi)
		})
	}
	if g.e.scale != 1 && !g.tables {
		g.VMULPS(g.broadcast(float32bits(g.e.scale)), v[0], v[0])
	}
	return v[0]
}

// sumQuarters sums the four 128 bits of up to four vectors: 128 bits of the result are a vector's.
func (g scores) sumQuarters(v []reg.VecVirtual) reg.VecVirtual {
	v = g.pairs(v, func(a, b, lo, hi reg.VecVirtual) {
		g.VSHUFF32X4(op.U8(0x44), b, a, lo)
		g.VSHUFF32X4(op.U8(0xee), b, a, hi)
	})
	v = g.pairs(v, func(a, b, lo, hi reg.VecVirtual) {
		g.VSHUFF32X4(op.U8(0x88), b, a, lo)
		g.VSHUFF32X4(op.U8(0xdd), b, a, hi)
	})
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

// store writes the sums of keys j and j+1, [rows][2], to s (already at key j), or
// of one key where one is left: 128 bits hold two rows.
func (g scores) store(sums reg.VecVirtual, s, j reg.GPVirtual) {
	by, row, next := g.param("stride"), g.GP64(), g.GP64()
	g.SHLQ(op.U8(2), by)
	g.MOVQ(s, row)
	g.LEAQ(op.Mem{Base: j, Disp: 1}, next)
	g.CMPQ(next, g.paramMem("keys"))
	g.JEQ(op.LabelRef("one"))
	g.eachPair(sums, row, by, g.VMOVLPS, func(x, m op.Op) { g.VMOVHPS(x, m) })
	g.JMP(op.LabelRef("stored"))
	g.Label("one")
	g.eachPair(sums, row, by, func(ops ...op.Op) { g.VMOVSS(ops...) }, func(x, m op.Op) { g.VEXTRACTPS(op.U8(2), x, m) })
	g.Label("stored")
}

// eachPair stores the rows of each 128 bits with even and odd.
func (g scores) eachPair(sums reg.VecVirtual, row, by reg.GPVirtual, even func(...op.Op), odd func(x, m op.Op)) {
	for r := 0; r < g.rows; r += 2 {
		x := g.quarter(sums, r/2)
		even(x, op.Mem{Base: row})
		if r+1 < g.rows {
			odd(x, op.Mem{Base: row, Index: by, Scale: 1})
		}
		if r+2 < g.rows {
			g.LEAQ(op.Mem{Base: row, Index: by, Scale: 2}, row)
		}
	}
}

func imm(n int) op.Op { return op.I32(int32(n)) }
