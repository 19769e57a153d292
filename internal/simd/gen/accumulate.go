package main

import (
	"fmt"

	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func accumulateFile(g *gen) {
	for _, e := range g.elems() {
		for _, r := range g.blocks {
			accumulate{gen: g, e: e, rows: r}.emit()
		}
	}
}

// accumulate is the kernel
//
//	o[r,d] = o[r,d]·α[r] + Σ_j p[r,j]·v_j[d]
//
// for a fixed number of rows. A pass takes a few vectors of every value: each is
// loaded once and meets the weights of all rows, and the sums of the tile stay
// in registers until the pass ends.
type accumulate struct {
	*gen
	e    elem
	rows int
	walk *heads

	beside *beside
}

// begin begins the function.
func (g accumulate) begin() {
	name := fmt.Sprintf("accumulate%sx%d%s", g.e.name, g.rows, g.suffix)
	g.TEXT(name, "func(o *float32, dim int, p *float32, stride int, alpha *float32, v *byte, off *int, keys int, "+headsArg+", "+aheadArgs+")",
		fmt.Sprintf("computes o[r·dim+d] = o[r·dim+d]·alpha[r] + Σ_j p[r·stride+j]·v_j[d] for %d rows.", g.rows))
}

func (g accumulate) emit() {
	g.begin()
	load := g.loader(g.e)
	zero := g.zero()
	// What only passes need is kept in memory: rows take most registers.
	at, o, left := g.AllocLocal(8), g.AllocLocal(8), g.AllocLocal(8)
	widths := g.widths[g.rows]
	if widths[0]*g.vecBytes(g.e) >= leastBeside {
		g.beside = g.gen.beside(g.e, "v")
	}
	ahead := g.gen.ahead(g.steps(widths[0]))
	g.walk = g.walkHeads()
	g.MOVQ(g.param("dim"), left)
	g.MOVQ(g.param("o"), o)
	g.MOVQ(imm(0), at)
	g.eachWidth(widths, g.lanes, left, func(w int) {
		g.pass(load, zero, w, o, at, ahead, nil)
		g.ADDQ(imm(4*w*g.lanes), o)
		g.ADDQ(imm(w*g.vecBytes(g.e)), at)
	})
	if !g.tables {
		g.rest(load, zero, o, left, at, ahead)
	}
	g.walk.next()
	ahead.rest()
	g.VZEROUPPER()
	g.RET()
}

// steps is how often the inner loops turn: the tile's keys times the passes of w
// vectors, 1 if there is none.
func (g accumulate) steps(w int) reg.GPVirtual {
	n, passes, one := g.param("keys"), g.param("dim"), g.GP64()
	g.MOVQ(imm(1), one)
	g.SHRQ(op.U8(log2(w*g.lanes)), passes)
	g.CMOVQEQ(one, passes)
	g.IMULQ(passes, n)
	g.timesHeads(n)
	return n
}

// walkHeads begins the loop over heads side by side.
func (g accumulate) walkHeads() *heads {
	return g.gen.heads(
		move{param: "o", word: headsRows, times: 4}, move{param: "p", word: headsScores, times: 4, key: 4},
		move{param: "alpha", word: headsAlpha, times: 4}, move{param: "v", word: headsPitch, times: 1}, move{param: "off", key: 8},
	)
}

// rest takes the vectors that are left one by one, the last one perhaps in part.
func (g accumulate) rest(load *loader, zero reg.VecVirtual, o, left, at op.Mem, ahead *ahead) {
	g.Label("rest")
	g.CMPQ(left, imm(0))
	g.JLE(op.LabelRef("done"))
	n := g.GP64()
	g.MOVQ(imm(g.lanes), n)
	g.CMPQ(left, n)
	g.CMOVQLT(left, n)
	part := &part{}
	if g.lanes == 16 {
		part.mask, part.byteMask = g.tailMask(n)
	} else {
		part.lanes = g.lastLanes(n)
		back := g.GP64() // the elements of the last 8 that are done already, negative
		g.LEAQ(op.Mem{Base: n, Disp: -8}, back)
		if g.e.bits >= 8 {
			g.addScaled(back, g.e.bits/8, at)
		}
		g.addScaled(back, 4, o)
	}
	g.pass(load, zero, 1, o, at, ahead, part)
	g.ADDQ(imm(4*g.lanes), o)
	g.ADDQ(imm(g.vecBytes(g.e)), at)
	g.SUBQ(imm(g.lanes), left)
	g.JMP(op.LabelRef("rest"))
	g.Label("done")
}

// addScaled adds n·size to a word in memory.
func (g accumulate) addScaled(n reg.GPVirtual, size int, m op.Mem) {
	bytes := g.GP64()
	g.MOVQ(n, bytes)
	g.SHLQ(op.U8(log2(size)), bytes)
	g.ADDQ(bytes, m)
}

// part says which lanes of a one-vector pass count.
type part struct {
	mask, byteMask reg.OpmaskVirtual // AVX-512
	lanes          reg.VecVirtual    // AVX2
}

// pass sums w vectors at byte `at` of every value into w vectors of each row at
// o, touching lines ahead at every key.
func (g accumulate) pass(load *loader, zero reg.VecVirtual, w int, o, at op.Mem, ahead *ahead, part *part) {
	label := fmt.Sprintf("keys%d", g.id())
	acc := g.vecs(g.rows * w)
	for _, a := range acc {
		g.VMOVAPS(zero, a)
	}
	g.resume(acc, w, o, part)
	p := g.gen.rows(g.rows, g.param("p"), g.param("stride"))
	off, v := g.param("off"), g.GP64()
	j, base := g.GP64(), g.param("v")
	g.ADDQ(at, base)
	g.XORQ(j, j)
	walk := g.offsets()
	g.beside.load()
	g.Label(label)
	ahead.step()
	g.LEAQ(op.Mem{Base: base, Index: walk.rel, Scale: 1}, v)
	g.beside.touch(op.Mem{Base: v}, w*g.vecBytes(g.e), true)
	weight := g.weights(p, w)
	var looked []reg.VecVirtual
	for i := range w {
		x, m := g.vec(), op.Mem{Base: v, Disp: i * g.vecBytes(g.e)}
		switch {
		case g.tables:
			if i%lookupVectors == 0 {
				looked = g.vecs(lookupVectors)
				load.tables.load(m, looked)
			}
			x = looked[i%lookupVectors]
		case part != nil && g.lanes == 16:
			load.loadMasked(m, part.mask, part.byteMask, x)
		default:
			load.load(m, x)
		}
		for r := range g.rows {
			if weight[r] == nil {
				g.VFMADD231PS_BCST(p.at(r), x, acc[r*w+i])
			} else {
				g.VFMADD231PS(weight[r], x, acc[r*w+i])
			}
		}
	}
	g.advance(p, 4)
	g.INCQ(j)
	g.CMPQ(j, g.paramMem("keys"))
	g.JGE(op.LabelRef(label + "done"))
	walk.next(off, j)
	g.JMP(op.LabelRef(label))
	g.Label(label + "done")
	aside := g.putAside(acc, w, o, part)
	g.update(acc, w, o, part)
	g.Label(aside)
}

// partial is where row r of a tile's sums so far is: of heads side by side.
func (g accumulate) partial(o op.Mem, each func(r int, row reg.GPVirtual)) {
	row, by, list := g.GP64(), g.param("dim"), g.param("heads")
	g.MOVQ(op.Mem{Base: list, Disp: headsPartial}, row)
	g.SHLQ(op.U8(2), row)
	g.ADDQ(o, row)
	g.SHLQ(op.U8(2), by)
	for r := range g.rows {
		each(r, row)
		if r < g.rows-1 {
			g.ADDQ(by, row)
		}
	}
}

// resume takes up the sums of the stretches before, if there are any.
func (g accumulate) resume(acc []reg.VecVirtual, w int, o op.Mem, part *part) {
	label := fmt.Sprintf("resumed%d", g.id())
	g.CMPQ(g.walk.begun, imm(0))
	g.JEQ(op.LabelRef(label))
	g.partial(o, func(r int, row reg.GPVirtual) {
		for i := range w {
			m, a := op.Mem{Base: row, Disp: 4 * g.lanes * i}, acc[r*w+i]
			switch {
			case part == nil:
				g.VMOVUPS(m, a)
			case g.lanes == 16:
				g.VMOVUPS_Z(m, part.mask, a)
			default:
				g.VMASKMOVPS(m, part.lanes, a)
			}
		}
	})
	g.Label(label)
}

// putAside leaves the sums to the next stretch, if there is one, and goes on at the label
// that it yields.
func (g accumulate) putAside(acc []reg.VecVirtual, w int, o op.Mem, part *part) (aside string) {
	id := g.id()
	label := fmt.Sprintf("last%d", id)
	aside = fmt.Sprintf("aside%d", id)
	g.CMPQ(g.walk.aside, imm(0))
	g.JEQ(op.LabelRef(label))
	g.partial(o, func(r int, row reg.GPVirtual) {
		for i := range w {
			g.storeSum(acc[r*w+i], op.Mem{Base: row, Disp: 4 * g.lanes * i}, part)
		}
	})
	g.JMP(op.LabelRef(aside))
	g.Label(label)
	return aside
}

func (g accumulate) storeSum(sum reg.VecVirtual, m op.Mem, part *part) {
	switch {
	case part == nil:
		g.VMOVUPS(sum, m)
	case g.lanes == 16:
		g.VMOVUPS(sum, part.mask, m)
	default:
		g.VMASKMOVPS(sum, part.lanes, m)
	}
}

// weights are a key's weights in registers, nil for those that multiply-adds take
// from memory. On Zen 4 a broadcast to a register waits for a shuffle unit that
// multiply-adds share, and one from memory is free; but it is a load, of which Intel
// has no more than multiply-adds. So AVX-512 takes every other row's from memory,
// and all where registers are short.
func (g accumulate) weights(p rows, w int) []reg.VecVirtual {
	weight := make([]reg.VecVirtual, g.rows)
	for r := range weight {
		if g.lanes == 16 && (r%2 == 1 || g.rows*w > 24) {
			continue
		}
		weight[r] = g.vec()
		g.VBROADCASTSS(p.at(r), weight[r])
	}
	return weight
}

// update is o = o·α + acc, with o not read where α is 0.
func (g accumulate) update(acc []reg.VecVirtual, w int, o op.Mem, part *part) {
	row, by, alpha := g.GP64(), g.param("dim"), g.param("alpha")
	g.MOVQ(o, row)
	g.SHLQ(op.U8(2), by)
	zero := g.zero()
	var scale reg.VecVirtual
	if g.e.scale != 1 && !g.tables {
		scale = g.broadcast(float32bits(g.e.scale))
	}
	for r := range g.rows {
		a := g.vec()
		g.VBROADCASTSS(op.Mem{Base: alpha, Disp: 4 * r}, a)
		read := g.reader(a, zero, part)
		for i := range w {
			m := op.Mem{Base: row, Disp: 4 * g.lanes * i}
			sum, old := acc[r*w+i], g.vec()
			if scale != nil {
				g.VMULPS(scale, sum, sum)
			}
			read(m, old)
			g.VFMADD231PS(old, a, sum)
			g.storeSum(sum, m, part)
		}
		if r < g.rows-1 {
			g.ADDQ(by, row)
		}
	}
}

// reader loads o, as zeros where α is 0.
func (g accumulate) reader(a, zero reg.VecVirtual, part *part) func(m op.Mem, dst reg.VecVirtual) {
	if g.lanes == 16 {
		live := g.K()
		g.VCMPPS(op.U8(notEqual), zero, a, live)
		if part != nil {
			g.KANDW(part.mask, live, live)
		}
		return func(m op.Mem, dst reg.VecVirtual) { g.VMOVUPS_Z(m, live, dst) }
	}
	live := g.vec()
	g.VCMPPS(op.U8(notEqual), zero, a, live)
	if part != nil {
		g.VANDPS(part.lanes, live, live)
		return func(m op.Mem, dst reg.VecVirtual) { g.VMASKMOVPS(m, live, dst) }
	}
	return func(m op.Mem, dst reg.VecVirtual) { g.VANDPS(m, live, dst) }
}
