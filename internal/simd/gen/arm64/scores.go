package main

import "fmt"

// rowBlocks are the numbers of rows that there are kernels for.
var rowBlocks = []int{1, 2, 4}

func scoresFile(f *file) {
	for _, e := range elems {
		for _, r := range rowBlocks {
			newScores(f, e, r).emit()
		}
	}
}

// scores is the kernel
//
//	s[r,j] = Σ_d q[r,d]·k_j[d]
//
// for a fixed number of rows, two keys at a time: memory is read in order, some
// vectors of one key, as many of the other, then they meet all rows.
type scores struct {
	*function
	e    elem
	rows int

	s, by, dim, keys, j reg
	load                *loader
	ptr, q              []reg            // where the keys and the rows of q are read
	acc                 [][2]([]vec)     // [rows][keys][chains]
	x                   [blockKeys][]vec // vectors of the keys
	y                   []vec            // vectors of q
}

// Two keys make a block.
const blockKeys = 2

// chains are how many sums a row and a key have side by side, so that multiply-adds
// wait less for each other. All kernels have as many: a row's bits then do not
// depend on the rows beside it.
const chains = 2

func newScores(f *file, e elem, rows int) *scores {
	name := fmt.Sprintf("scores%sx%dNEON", e.name, rows)
	g := &scores{e: e, rows: rows}
	g.function = f.function(name, fmt.Sprintf("computes s[r·stride+j] = Σ_d q[r·dim+d]·k_j[d] for %d rows.", rows),
		"s *float32, stride int, q *float32, dim int, k *byte, off *int, keys int, "+aheadParams, "")
	return g
}

func (g *scores) emit() {
	g.s, g.by, g.dim, g.keys, g.j = g.arg("s"), g.arg("stride"), g.arg("dim"), g.arg("keys"), g.reg()
	q, k, byQ, turns, t := g.arg("q"), g.arg("k"), g.reg(), g.reg(), g.reg()
	g.ptr, g.q = g.regs(blockKeys), g.regs(g.rows)
	g.op("LSL", 2, g.by)
	g.op("LSL", 2, g.dim, byQ)
	g.op("MOVD", zeroReg, g.j)
	g.vectors(t)
	g.op("ADD", 1, g.keys, t)
	g.op("LSR", 1, t)
	ahead := g.ahead(t)
	walk := g.offsets(g.keys)

	block := g.label("block")
	g.mark(block)
	ahead.step()
	for r := range g.rows {
		for c := range blockKeys {
			for _, a := range g.acc[r][c] {
				g.v(zero(a))
			}
		}
	}
	g.pointers(walk, k, t)
	g.op("MOVD", q, g.q[0])
	for r := 1; r < g.rows; r++ {
		g.op("ADD", byQ, g.q[r-1], g.q[r])
	}
	g.repeat(g.dim, mostAt, turns, g.chunk)
	g.reduce()
	g.store(t)
	g.op("ADD", 4*blockKeys, g.s)
	g.op("ADD", blockKeys, g.j)
	g.op("CMP", g.keys, g.j)
	g.op("BLT", block)

	ahead.rest()
	g.ret()
}

// vectors shares the vector registers out.
func (g *scores) vectors(scratch reg) {
	g.load = g.loader(g.e, scratch)
	for range g.rows {
		g.acc = append(g.acc, [2][]vec{g.vecs(chains), g.vecs(chains)})
	}
	g.x = [blockKeys][]vec{g.vecs(vectors(mostAt)), g.vecs(vectors(mostAt))}
	g.y = g.vecs(4)
}

// pointers are the addresses of keys j and j+1, the tile's last key standing in
// for one past it.
func (g *scores) pointers(walk *offsets, k, next reg) {
	g.op("ADD", 1, g.j, next)
	for c := range g.ptr {
		last := g.label("last")
		g.op("ADD", walk.rel, k, g.ptr[c])
		if c > 0 {
			g.op("ADD", 1, next)
		}
		g.op("CMP", g.keys, next)
		g.op("BGE", last)
		walk.next(next)
		g.mark(last)
	}
}

// chunk takes n elements of both keys, and moves on. A query's vector, loaded once,
// meets both.
func (g *scores) chunk(n int) {
	for c, p := range g.ptr {
		g.load.load(n, p, 0, g.x[c][:vectors(n)])
		g.op("ADD", g.e.size(n), p)
	}
	for i := range vectors(n) {
		for r, q := range g.q {
			y := g.y[(i*g.rows+r)%len(g.y)]
			g.v(ldr(y, 4*min(n, lanes), q, 16*i))
			for c := range blockKeys {
				acc := g.acc[r][c]
				g.v(fmla(acc[i%len(acc)], y, g.x[c][i]))
			}
		}
	}
	for _, q := range g.q {
		g.op("ADD", 4*n, q)
	}
}

// reduce sums the chains and the lanes: row r's sums of both keys are the lowest
// lanes of its first accumulator.
func (g *scores) reduce() {
	for r := range g.rows {
		for c := range blockKeys {
			for acc := g.acc[r][c]; len(acc) > 1; acc = acc[:len(acc)/2] {
				for i := range len(acc) / 2 {
					g.v(fadd(acc[i], acc[i], acc[i+len(acc)/2]))
				}
			}
		}
		sum := g.acc[r][0][0]
		g.v(faddp(sum, sum, g.acc[r][1][0]), faddp(sum, sum, sum))
		if g.e.scale != 1 {
			g.v(fmul(sum, sum, g.load.factor))
		}
	}
}

// store writes the sums of keys j and j+1, or of one key where one is left.
func (g *scores) store(p reg) {
	one, stored := g.label("one"), g.label("stored")
	g.op("ADD", 1, g.j, p)
	g.op("CMP", g.keys, p)
	g.op("BEQ", one)
	g.storeRows(8, p)
	g.op("JMP", stored)
	g.mark(one)
	g.storeRows(4, p)
	g.mark(stored)
}

func (g *scores) storeRows(bytes int, p reg) {
	g.op("MOVD", g.s, p)
	for r := range g.rows {
		g.v(str(g.acc[r][0][0], bytes, p, 0))
		if r < g.rows-1 {
			g.op("ADD", g.by, p)
		}
	}
}
