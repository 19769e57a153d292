package main

import (
	"fmt"

	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func scoresFile(g *gen) {
	for _, e := range g.elems() {
		for _, r := range g.blocks {
			k := scores{gen: g, e: e, rows: r}
			switch {
			case g.level == &splitwise:
				splits{k}.emit()
			case g.level == &eightScores:
				eights{quads: quads{k}}.emit()
			case g.quads, g.evenly && r <= quadKeys:
				quads{k}.emit()
			default:
				k.emit()
			}
		}
	}
}

// scores is the kernel
//
//	s[r,j] = Σ_d q[r,d]·k_j[d]
//
// for a fixed number of rows, two keys at a time. Memory is read strictly in
// order: some vectors of one key, as many of the other, then they meet all rows.
// That is what the hardware prefetcher follows; taking keys in parallel, vector by
// vector, costs half of the bandwidth (docs/calibration.md).
type scores struct {
	*gen
	e    elem
	rows int
}

// Two keys make a block: it ends with one reduction.
const blockKeys = 2

// begin begins the function.
func (g scores) begin() {
	name := fmt.Sprintf("scores%sx%d%s", g.e.name, g.rows, g.suffix)
	g.TEXT(name, "func(s *float32, stride int, q *float32, dim int, k *byte, off *int, keys int, "+headsArg+", "+aheadArgs+")",
		fmt.Sprintf("computes s[r·stride+j] = Σ_d q[r·dim+d]·k_j[d] for %d rows.", g.rows))
}

func (g scores) emit() {
	g.begin()
	load := g.loader(g.e)
	zero := g.zero()
	beside := g.gen.beside(g.e, "k")
	ahead := g.gen.ahead(g.steps())
	heads := g.walkHeads()
	s, j := g.param("s"), g.GP64()
	g.XORQ(j, j)
	walk := g.offsets()

	g.Label("block")
	ahead.step()
	acc := g.vecs(g.rows * blockKeys)
	for _, a := range acc {
		g.VMOVAPS(zero, a)
	}
	ptr := g.pointers(walk, j)
	q := g.gen.rows(g.rows, g.param("q"), g.param("dim"))
	left := g.param("dim")
	beside.load()
	for _, w := range g.scoreWidths[g.rows] {
		label := fmt.Sprintf("width%d", w)
		g.Label(label)
		g.CMPQ(left, imm(w*g.lanes))
		g.JLT(op.LabelRef(label + "done"))
		g.chunk(load, beside, w, ptr, q, acc)
		g.advance(q, 4*w*g.lanes)
		for _, p := range ptr {
			g.ADDQ(imm(w*g.vecBytes(g.e)), p)
		}
		g.SUBQ(imm(w*g.lanes), left)
		if w == g.scoreWidths[g.rows][0] || w == 1 {
			g.JMP(op.LabelRef(label))
		}
		g.Label(label + "done")
	}
	g.TESTQ(left, left)
	g.JZ(op.LabelRef("reduce"))
	switch {
	case g.tables, g.paired: // nothing is left
	case g.lanes == 16:
		g.restMasked(load, left, acc, ptr, q)
	default:
		g.restOverlapping(load, left, acc, ptr, q)
	}
	g.Label("reduce")
	g.store(g.reduce(acc), s, j)
	g.ADDQ(imm(4*blockKeys), s)
	g.ADDQ(imm(blockKeys), j)
	g.CMPQ(j, g.paramMem("keys"))
	g.JLT(op.LabelRef("block"))
	heads.next()

	ahead.rest()
	g.VZEROUPPER()
	g.RET()
}

// steps is the number of blocks.
func (g scores) steps() reg.GPVirtual {
	n := g.param("keys")
	g.INCQ(n)
	g.SHRQ(op.U8(1), n)
	g.timesHeads(n)
	return n
}

// walkHeads begins the loop over heads side by side.
func (g scores) walkHeads() *heads {
	return g.gen.heads(
		move{param: "s", word: headsScores, times: 4, key: 4}, move{param: "q", word: headsRows, times: 4},
		move{param: "k", word: headsPitch, times: 1}, move{param: "off", key: 8},
	)
}

// pointers are the addresses of keys j and j+1, the tile's last key standing in
// for one past it.
func (g scores) pointers(walk *offsets, j reg.GPVirtual) []reg.GPVirtual {
	ptr := []reg.GPVirtual{g.GP64(), g.GP64()}
	off, k, next := g.param("off"), g.param("k"), g.GP64()
	g.LEAQ(op.Mem{Base: k, Index: walk.rel, Scale: 1}, ptr[0])
	g.LEAQ(op.Mem{Base: j, Disp: 1}, next)
	g.CMPQ(next, g.paramMem("keys"))
	g.JGE(op.LabelRef("second"))
	walk.next(off, next)
	g.Label("second")
	g.LEAQ(op.Mem{Base: k, Index: walk.rel, Scale: 1}, ptr[1])
	g.INCQ(next)
	g.CMPQ(next, g.paramMem("keys"))
	g.JGE(op.LabelRef("third"))
	walk.next(off, next)
	g.Label("third")
	return ptr
}

// chunk takes w vectors of both keys. Where both keys' vectors stay in registers, a
// query's vector, loaded once, meets both; else it is loaded for each, which keeps
// memory in order for longer.
func (g scores) chunk(load *loader, beside *beside, w int, ptr []reg.GPVirtual, q rows, acc []reg.VecVirtual) {
	if g.lanes == 8 && g.rows < 4 && !g.paired {
		for c, p := range ptr {
			for i := range w {
				x := g.vec()
				load.load(op.Mem{Base: p, Disp: i * g.vecBytes(g.e)}, x)
				for r := range g.rows {
					g.VFMADD231PS(disp(q.at(r), 4*g.lanes*i), x, acc[r*blockKeys+c])
				}
			}
		}
		return
	}
	x := [blockKeys][]reg.VecVirtual{g.vecs(w), g.vecs(w)}
	for c, p := range ptr {
		if g.tables {
			load.tables.load(op.Mem{Base: p}, x[c])
			continue
		}
		for i := range w {
			m := op.Mem{Base: p, Disp: i * g.vecBytes(g.e)}
			beside.touch(m, g.vecBytes(g.e), false)
			load.load(m, x[c][i])
		}
	}
	for i := range w {
		for r := range g.rows {
			y := g.query(disp(q.at(r), 4*g.lanes*i))
			for c := range ptr {
				g.multiplyAdd(y, x[c][i], acc[r*blockKeys+c])
			}
		}
	}
}

// query is a vector of a query's as an operand: in a register, but for kernels that wait for memory. There an instruction
// less for each is more keys under way.
func (g scores) query(m op.Mem) op.Op {
	if g.paired {
		return m
	}
	y := g.vec()
	g.VMOVUPS(m, y)
	return y
}

func disp(m op.Mem, n int) op.Mem {
	m.Disp += n
	return m
}

// restMasked takes the last dim mod 16 elements.
func (g scores) restMasked(load *loader, left reg.GPVirtual, acc []reg.VecVirtual, ptr []reg.GPVirtual, q rows) {
	mask, byteMask := g.tailMask(left)
	for c := range ptr {
		v := g.vec()
		load.loadMasked(op.Mem{Base: ptr[c]}, mask, byteMask, v)
		for r := range g.rows {
			x := g.vec()
			g.VMOVUPS_Z(q.at(r), mask, x)
			g.VFMADD231PS(x, v, acc[r*len(ptr)+c])
		}
	}
}

// restOverlapping takes the last dim mod 8 elements as the end of the last 8,
// the lanes that were taken before masked to zero.
func (g scores) restOverlapping(load *loader, left reg.GPVirtual, acc []reg.VecVirtual, ptr []reg.GPVirtual, q rows) {
	mask := g.lastLanes(left)
	back := left // the elements to step back, negative
	g.SUBQ(imm(8), back)
	g.LEAQ(op.Mem{Base: q.a, Index: back, Scale: 4}, q.a)
	if q.b != nil {
		g.LEAQ(op.Mem{Base: q.b, Index: back, Scale: 4}, q.b)
	}
	for c := range ptr {
		m := op.Mem{Base: ptr[c]}
		if g.e.bits >= 8 {
			m.Index, m.Scale = back, uint8(g.e.bits/8)
		}
		v := g.vec()
		load.load(m, v)
		g.VANDPS(mask, v, v)
		for r := range g.rows {
			x := g.vec()
			g.VANDPS(q.at(r), mask, x)
			g.VFMADD231PS(x, v, acc[r*len(ptr)+c])
		}
	}
}
