package main

import (
	"fmt"

	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// quads is scores for four keys at a time: a query's vector, loaded once, meets all
// four, and 16 sums are put together at once. Vectors of 256 bits with 32 registers,
// for processors that do 512 bits in two halves: they lose nothing, and sums have
// half as many lanes to add up (docs/calibration.md). Others take 512 bits.
//
// More than one row wait for multiply-adds, not for memory: their keys, fetched
// ahead, are read side by side. One row takes longer pieces of each.
type quads struct{ scores }

const quadKeys = 4

func (g quads) emit() {
	g.begin()
	load := g.loader(g.e)
	zero := g.zero()
	s, j := g.AllocLocal(8), g.AllocLocal(8)
	beside := g.gen.beside(g.e, "k")
	ahead := g.gen.ahead(g.steps())
	heads := g.walkHeads()
	g.MOVQ(g.param("s"), s)
	g.MOVQ(imm(0), j)
	walk := g.offsets()

	g.Label("block")
	acc := g.vecs(g.rows * quadKeys)
	for _, a := range acc {
		g.VMOVAPS(zero, a)
	}
	ptr := g.pointers(walk, j)
	q := g.gen.rows(g.rows, g.param("q"), g.param("dim"))
	at, left := g.place(), g.param("dim")
	if at != nil {
		g.XORL(at.As32(), at.As32())
	}
	beside.load()
	g.eachWidth(g.scoreWidths[g.rows], g.lanes, left, func(w int) {
		if w == g.stepVectors() {
			ahead.step()
		}
		g.chunk(load, beside, w, ptr, at, q, acc)
		g.advance(q, 4*w*g.lanes)
		g.moveOn(ptr, at, w*g.vecBytes(g.e))
	})
	if !g.paired {
		g.TESTQ(left, left)
		g.JZ(op.LabelRef("reduce"))
		if at != nil {
			for _, p := range ptr {
				g.ADDQ(at, p)
			}
		}
		if g.lanes == 16 {
			g.restMasked(load, left, acc, ptr, q)
		} else {
			g.restOverlapping(load, left, acc, ptr, q)
		}
		g.Label("reduce")
	}
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

// stepVectors is how many vectors of each key are scored before more lines are
// touched ahead.
func (g quads) stepVectors() int { return g.scoreWidths[g.rows][0] }

// steps is the number of blocks times the steps in each, 1 if there is none.
func (g quads) steps() reg.GPVirtual {
	n, each, one := g.param("keys"), g.param("dim"), g.GP64()
	g.ADDQ(imm(quadKeys-1), n)
	g.SHRQ(op.U8(log2(quadKeys)), n)
	g.MOVQ(imm(1), one)
	g.SHRQ(op.U8(log2(g.stepVectors()*g.lanes)), each)
	g.CMOVQEQ(one, each)
	g.IMULQ(each, n)
	g.timesHeads(n)
	return n
}

// pointers are the addresses of keys j to j+3, the tile's last key standing in for
// those past it.
func (g quads) pointers(walk *offsets, j op.Mem) []reg.GPVirtual {
	next := g.GP64()
	g.MOVQ(j, next)
	ptr := make([]reg.GPVirtual, quadKeys)
	for c := range ptr {
		label := fmt.Sprintf("key%d", c+1)
		ptr[c] = g.GP64()
		g.MOVQ(g.paramMem("k"), ptr[c])
		g.ADDQ(walk.rel, ptr[c])
		g.INCQ(next)
		g.CMPQ(next, g.paramMem("keys"))
		g.JGE(op.LabelRef(label))
		walk.next(g.param("off"), next)
		g.Label(label)
	}
	return ptr
}

// place is how far keys have been scored, in bytes; nil where pointers tell, since what is fetched
// with a line wants the other register of an address.
func (g quads) place() reg.GPVirtual {
	if g.evenly {
		return nil
	}
	return g.GP64()
}

// moveOn moves so many bytes on.
func (g quads) moveOn(ptr []reg.GPVirtual, at reg.GPVirtual, n int) {
	if at != nil {
		g.ADDQ(imm(n), at)
		return
	}
	for _, p := range ptr {
		g.ADDQ(imm(n), p)
	}
}

// at is vector i of a key.
func (g quads) at(p reg.GPVirtual, at reg.GPVirtual, i int) op.Mem {
	m := op.Mem{Base: p, Disp: i * g.vecBytes(g.e)}
	if at != nil {
		m.Index, m.Scale = at, 1
	}
	return m
}

// chunk takes w vectors at byte `at` of the four keys, two of each in turn; for one
// row, all of each.
func (g quads) chunk(load *loader, beside *beside, w int, ptr []reg.GPVirtual, at reg.GPVirtual, q rows, acc []reg.VecVirtual) {
	if g.rows == 1 {
		y := g.vecs(w)
		for i := range w {
			g.VMOVUPS(disp(q.at(0), 4*g.lanes*i), y[i])
		}
		for c, p := range ptr {
			for i := range w {
				x := g.vec()
				beside.touch(g.at(p, at, i), g.vecBytes(g.e), true)
				load.load(g.at(p, at, i), x)
				g.multiplyAdd(y[i], x, acc[c])
			}
		}
		return
	}
	for i := 0; i < w; i += 2 {
		n := min(2, w-i)
		x := make([][]reg.VecVirtual, quadKeys)
		for c, p := range ptr {
			x[c] = g.vecs(n)
			for v := range x[c] {
				beside.touch(g.at(p, at, i+v), g.vecBytes(g.e), true)
				load.load(g.at(p, at, i+v), x[c][v])
			}
		}
		for v := range n {
			for r := range g.rows {
				y := g.vec()
				g.VMOVUPS(disp(q.at(r), 4*g.lanes*(i+v)), y)
				for c := range ptr {
					g.multiplyAdd(y, x[c][v], acc[r*quadKeys+c])
				}
			}
		}
	}
}

// store writes the sums of keys j to j+3, or of those that are left, to s, which is
// at key j already.
func (g quads) store(acc []reg.VecVirtual, s, j op.Mem) {
	var sums []reg.VecVirtual // a vector of as many rows as it has lanes for
	at := g.lanes / quadKeys
	for r := 0; r < g.rows; r += at {
		sums = append(sums, g.reduce(acc[r*quadKeys:min(r+at, g.rows)*quadKeys]))
	}
	g.storeRows(sums, s, j)
}

// storeRows is store of sums that are put together, a row in each 128 bits.
func (g quads) storeRows(sums []reg.VecVirtual, s, j op.Mem) {
	by, row, n := g.param("stride"), g.GP64(), g.param("keys")
	g.SHLQ(op.U8(2), by)
	g.MOVQ(s, row)
	g.SUBQ(j, n)
	g.CMPQ(n, imm(quadKeys))
	g.JLT(op.LabelRef("fewer"))
	g.eachRow(sums, row, by, func(x reg.Register) { g.VMOVUPS(x, op.Mem{Base: row}) })
	g.JMP(op.LabelRef("stored"))
	g.Label("fewer")
	bits, live := g.GP32(), g.K()
	g.MOVL(op.U32(1<<quadKeys-1), bits)
	g.BZHIL(n.As32(), bits, bits)
	g.KMOVW(bits, live)
	g.eachRow(sums, row, by, func(x reg.Register) { g.VMOVUPS(x, live, op.Mem{Base: row}) })
	g.Label("stored")
}

// eachRow stores the 128 bits of each row, from row on.
func (g quads) eachRow(sums []reg.VecVirtual, row, by reg.GPVirtual, store func(x reg.Register)) {
	for r := range g.rows {
		store(g.quarter(sums[r*quadKeys/g.lanes], r%(g.lanes/quadKeys)))
		if r < g.rows-1 {
			g.ADDQ(by, row)
		}
	}
}

// multiplyAdd is acc += x·y.
func (g scores) multiplyAdd(y op.Op, x, acc reg.VecVirtual) {
	if g.paired {
		g.dot(y, x, acc)
		return
	}
	g.VFMADD231PS(y, x, acc)
}
