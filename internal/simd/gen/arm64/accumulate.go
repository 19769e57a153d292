package main

import "fmt"

func accumulateFile(f *file) {
	for _, e := range elems {
		for _, r := range rowBlocks {
			newAccumulate(f, e, r).emit()
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
	*function
	e    elem
	rows int

	o, byO, p, byP, alpha, v0, keys, j reg
	value, scratch, scratch2           reg
	weights                            []reg // where the rows of p are read
	load                               *loader
	walk                               *offsets
	ahead                              *ahead
	acc                                []vec // [rows][vectors of the pass]
	w, x                               []vec // weights; vectors of a value, or of o
}

// passAt is how many elements of a row a pass takes, at most: with all rows,
// 16 vectors of sums.
func passAt(rows int) int { return 16 * lanes / rows }

func newAccumulate(f *file, e elem, rows int) *accumulate {
	name := fmt.Sprintf("accumulate%sx%dNEON", e.name, rows)
	g := &accumulate{e: e, rows: rows}
	g.function = f.function(name, fmt.Sprintf("computes o[r·dim+d] = o[r·dim+d]·alpha[r] + Σ_j p[r·stride+j]·v_j[d] for %d rows.", rows),
		"o *float32, dim int, p *float32, stride int, alpha *float32, v *byte, off *int, keys int, "+aheadParams, "")
	return g
}

func (g *accumulate) emit() {
	dim, turns := g.arg("dim"), g.reg()
	g.o, g.p, g.byP, g.alpha = g.arg("o"), g.arg("p"), g.arg("stride"), g.arg("alpha")
	g.v0, g.keys = g.arg("v"), g.arg("keys")
	g.byO, g.j, g.value, g.scratch, g.scratch2 = g.reg(), g.reg(), g.reg(), g.reg(), g.reg()
	g.weights = g.regs(g.rows)
	g.op("LSL", 2, dim, g.byO)
	g.op("LSL", 2, g.byP)
	g.load = g.loader(g.e, g.scratch)
	g.acc, g.w, g.x = g.vecs(g.rows*vectors(passAt(g.rows))), g.vecs(g.rows), g.vecs(vectors(mostAt))
	g.steps(dim, turns)
	g.ahead = g.function.ahead(turns)
	g.walk = g.offsets(g.keys)
	g.repeat(dim, passAt(g.rows), turns, g.pass)
	g.ahead.rest()
	g.ret()
}

// steps is how often the inner loops turn: the tile's keys times the largest
// passes, 1 if there is none.
func (g *accumulate) steps(dim, n reg) {
	some := g.label("somePasses")
	g.op("LSR", log2(passAt(g.rows)), dim, n)
	g.op("CBNZ", n, some)
	g.op("MOVD", 1, n)
	g.mark(some)
	g.op("MUL", g.keys, n)
}

// pass sums the next n elements of every value into each row, touching lines ahead
// at every key, and moves on.
func (g *accumulate) pass(n int) {
	count := vectors(n)
	for i := range g.rows * count {
		g.v(zero(g.acc[i]))
	}
	g.op("MOVD", g.p, g.weights[0])
	for r := 1; r < g.rows; r++ {
		g.op("ADD", g.byP, g.weights[r-1], g.weights[r])
	}
	g.op("MOVD", zeroReg, g.j)
	g.walk.first()
	key, summed := g.label("key"), g.label("summed")
	g.mark(key)
	g.ahead.step()
	g.op("ADD", g.walk.rel, g.v0, g.value)
	for r, p := range g.weights {
		g.v(ld1rOn(g.w[r], 4, p))
	}
	g.key(n)
	g.op("ADD", 1, g.j)
	g.op("CMP", g.keys, g.j)
	g.op("BGE", summed)
	g.walk.next(g.j)
	g.op("JMP", key)
	g.mark(summed)
	g.update(n)
	g.op("ADD", 4*n, g.o)
	g.op("ADD", g.e.size(n), g.v0)
}

// key adds n elements of one value, under the weights of all rows.
func (g *accumulate) key(n int) {
	count := vectors(n)
	for d := 0; d < n; d += mostAt {
		part := min(n, mostAt)
		x := g.x[:vectors(part)]
		g.load.load(part, g.value, g.e.size(d), x)
		for i := range x {
			for r := range g.rows {
				g.v(fmla(g.acc[r*count+d/lanes+i], g.w[r], x[i]))
			}
		}
	}
}

// update is o = o·α + acc, with o not read where α is 0.
func (g *accumulate) update(n int) {
	count, bytes := vectors(n), 4*min(n, lanes)
	row, a := g.value, g.scratch
	g.op("MOVD", g.o, row)
	for r := range g.rows {
		acc, started := g.acc[r*count:][:count], g.label("started")
		if g.e.scale != 1 {
			for _, x := range acc {
				g.v(fmul(x, x, g.load.factor))
			}
		}
		g.op("MOVWU", at(g.alpha, 4*r), a)
		g.op("LSLW", 1, a, g.scratch2) // −0 is 0, too
		g.op("CBZ", g.scratch2, started)
		g.v(dupW(g.w[r], a))
		for i := range acc {
			old := g.x[i%len(g.x)]
			g.v(ldr(old, bytes, row, 16*i), fmla(acc[i], old, g.w[r]))
		}
		g.mark(started)
		for i := range acc {
			g.v(str(acc[i], bytes, row, 16*i))
		}
		if r < g.rows-1 {
			g.op("ADD", g.byO, row)
		}
	}
}
