package main

import (
	"fmt"

	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const aheadArgs = "ahead *byte, aheadOff *int, aheadKeys, aheadLines int"

func scoresFile(g *gen) {
	for _, e := range elems {
		for _, r := range g.rowBlocks() {
			scores{gen: g, e: e, rows: r, keys: g.scoreKeys[r]}.emit()
		}
	}
}

// scores is the kernel
//
//	s[r,j] = Σ_d q[r,d]·k_j[d]
//
// for a fixed number of rows. It takes `keys` keys at a time: each vector of a key
// is loaded once and meets all rows, each vector of a query meets all keys, and
// rows × keys accumulators are reduced to one vector in the end.
type scores struct {
	*gen
	e          elem
	rows, keys int
}

func (g scores) emit() {
	name := fmt.Sprintf("scores%sx%d%s", g.e.name, g.rows, g.suffix)
	g.TEXT(name, "func(s *float32, stride int, q *float32, dim int, k *byte, off *int, keys int, "+aheadArgs+")",
		fmt.Sprintf("computes s[r·stride+j] = Σ_d q[r·dim+d]·k_j[d] for %d rows.", g.rows))
	load := g.loader(g.e)
	zero := g.zero()
	s, j := g.param("s"), g.GP64()
	g.XORQ(j, j)
	var mask, byteMask reg.OpmaskVirtual
	if g.lanes == 16 {
		rest := g.param("dim")
		g.ANDQ(op.Imm(15), rest)
		mask, byteMask = g.tailMask(rest)
	}

	g.Label("block")
	g.prefetch(j, g.keys)
	ptr := g.pointers(j)
	acc := g.vecs(g.rows * g.keys)
	for _, a := range acc {
		g.VMOVAPS(zero, a)
	}
	q := g.gen.rows(g.rows, g.param("q"), g.param("dim"))
	at, n := g.GP64(), g.param("dim")
	g.XORQ(at, at)
	g.SHRQ(op.U8(log2(g.lanes)), n)
	g.JZ(op.LabelRef("rest"))
	g.Label("dims")
	for c := range ptr {
		v := g.vec()
		load.load(op.Mem{Base: ptr[c], Index: at, Scale: 1}, v)
		g.multiply(acc, c, q, v)
	}
	g.advance(q, 4*g.lanes)
	g.ADDQ(imm(g.vecBytes(g.e)), at)
	g.DECQ(n)
	g.JNZ(op.LabelRef("dims"))

	g.Label("rest")
	if g.lanes == 16 {
		g.restMasked(load, mask, byteMask, acc, ptr, at, q)
	} else {
		g.restOverlapping(load, acc, ptr, at, q)
	}
	g.store(g.reduce(acc), s, j)
	g.ADDQ(imm(4*g.keys), s)
	g.ADDQ(imm(g.keys), j)
	g.CMPQ(j, g.param("keys"))
	g.JLT(op.LabelRef("block"))

	g.prefetch(j, 0)
	g.VZEROUPPER()
	g.RET()
}

// pointers are the addresses of keys j … j+keys−1, the tile's last key standing
// in for those past it.
func (g scores) pointers(j reg.GPVirtual) []reg.GPVirtual {
	ptr := make([]reg.GPVirtual, g.keys)
	off, k, last := g.param("off"), g.param("k"), g.param("keys")
	g.DECQ(last)
	i := g.GP64()
	for c := range ptr {
		ptr[c] = g.GP64()
		g.LEAQ(op.Mem{Base: j, Disp: c}, i)
		g.CMPQ(i, last)
		g.CMOVQGT(last, i)
		g.MOVQ(op.Mem{Base: off, Index: i, Scale: 8}, ptr[c])
		g.ADDQ(k, ptr[c])
	}
	return ptr
}

// multiply adds key vector v of key c to the accumulators of all rows.
func (g scores) multiply(acc []reg.VecVirtual, c int, q rows, v reg.VecVirtual) {
	for r := range g.rows {
		g.VFMADD231PS(q.at(r), v, acc[r*g.keys+c])
	}
}

// restMasked takes the last dim mod 16 elements.
func (g scores) restMasked(load *loader, mask, byteMask reg.OpmaskVirtual, acc []reg.VecVirtual, ptr []reg.GPVirtual, at reg.GPVirtual, q rows) {
	g.KORTESTW(mask, mask)
	g.JZ(op.LabelRef("reduce"))
	for c := range ptr {
		v := g.vec()
		load.loadMasked(op.Mem{Base: ptr[c], Index: at, Scale: 1}, mask, byteMask, v)
		for r := range g.rows {
			x := g.vec()
			g.VMOVUPS_Z(q.at(r), mask, x)
			g.VFMADD231PS(x, v, acc[r*g.keys+c])
		}
	}
	g.Label("reduce")
}

// restOverlapping takes the last dim mod 8 elements as the end of the last 8,
// the lanes that were taken before masked to zero.
func (g scores) restOverlapping(load *loader, acc []reg.VecVirtual, ptr []reg.GPVirtual, at reg.GPVirtual, q rows) {
	n := g.param("dim")
	g.ANDQ(op.Imm(7), n)
	g.JZ(op.LabelRef("reduce"))
	mask := g.lastLanes(n)
	// Step back 8 − n elements.
	g.SUBQ(op.Imm(8), n)
	g.LEAQ(op.Mem{Base: q.a, Index: n, Scale: 4}, q.a)
	if q.b != nil {
		g.LEAQ(op.Mem{Base: q.b, Index: n, Scale: 4}, q.b)
	}
	if g.e.bits >= 8 {
		g.LEAQ(op.Mem{Base: at, Index: n, Scale: uint8(g.e.bits / 8)}, at)
	}
	for c := range ptr {
		v := g.vec()
		load.load(op.Mem{Base: ptr[c], Index: at, Scale: 1}, v)
		g.VANDPS(mask, v, v)
		for r := range g.rows {
			x := g.vec()
			g.VANDPS(q.at(r), mask, x)
			g.VFMADD231PS(x, v, acc[r*g.keys+c])
		}
	}
	g.Label("reduce")
}
