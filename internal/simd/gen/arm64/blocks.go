package main

import "fmt"

// block is a layout of 32 quantised elements.
type block struct {
	name    string
	bytes   int
	codes   int  // where its codes begin
	nibbles bool // two codes a byte, those of the second half of the elements the high ones
	offset  int  // what is taken off each code
	least   bool // a second binary16 is added to each element
}

var blockTypes = []block{
	{name: "Q4_0", bytes: 18, codes: 2, nibbles: true, offset: 8},
	{name: "Q4_1", bytes: 20, codes: 4, nibbles: true, least: true},
	{name: "Q8_0", bytes: 34, codes: 2},
}

const (
	blockElements = 32
	blockVectors  = blockElements / lanes
	// fetchAhead is how far ahead of its work a kernel fetches, in bytes.
	fetchAhead = 2048
	// unroll is how many blocks have accumulators of their own.
	unroll = 2
)

func blocksFile(f *file) {
	for _, b := range blockTypes {
		newBlocks(f, b, "dot", "computes y[r] = Σ_c row_r[c]·x[c] over rows of so many %s blocks, at least 1.",
			"y *float32, rows int, row *byte, x *float32, blocks int").dot()
	}
	for _, b := range blockTypes {
		newBlocks(f, b, "dequantise", "writes the elements of so many %s blocks, at least 1.",
			"dst *float32, src *byte, blocks int").dequantise()
	}
}

// blocks are the kernels on blocks: they turn codes into float32 first.
type blocks struct {
	*function
	block
	widen        *loader
	values       []vec // a block's elements
	d, m         vec   // its scale, and what is added
	low, offsets vec   // constants
}

func newBlocks(f *file, b block, name, doc, signature string) *blocks {
	g := &blocks{block: b}
	g.function = f.function(name+b.name+"NEON", fmt.Sprintf(doc, b.name), signature, "")
	g.widen = &loader{function: g.function, e: elem{bits: 8, bytes: sxtlB, halves: sxtlH, integer: true}}
	g.values, g.d, g.m, g.low, g.offsets = g.vecs(blockVectors), g.vec(), g.vec(), g.vec(), g.vec()
	return g
}

// constants are for nibbles.
func (g *blocks) constants(scratch reg) {
	if g.nibbles {
		g.broadcast(0x0f0f0f0f, g.low, scratch)
	}
	if g.offset != 0 {
		g.broadcast(uint32(g.offset)*0x01010101, g.offsets, scratch)
	}
}

// load makes values the codes of the block some bytes behind p, and d and m its numbers.
func (g *blocks) load(p reg, at int) {
	lower, upper := g.values[:4], g.values[4:]
	if g.nibbles {
		g.v(ldur(upper[3], 16, p, at+g.codes))
		g.v(and(lower[3], upper[3], g.low), ushrB4(upper[3], upper[3]))
	} else {
		g.v(ldur(lower[3], 16, p, at+g.codes), ldur(upper[3], 16, p, at+g.codes+16))
	}
	for _, half := range [][]vec{lower, upper} {
		if g.offset != 0 {
			g.v(subB(half[3], half[3], g.offsets))
		}
		g.widen.codes(half)
		g.widen.floats(half)
	}
	g.half(g.d, p, at)
	if g.least {
		g.half(g.m, p, at+2)
	}
}

// half fills v with the float32 of a binary16.
func (g *blocks) half(v vec, p reg, at int) {
	g.v(ldur(v, 2, p, at), fcvtl.low(v, v), dupS(v, v))
}

// dot is the kernel
//
//	y[r] = Σ_c row_r[c]·x[c]
//
// for rows of blocks that follow one another in memory. A block's codes meet x, and
// are scaled once a block, or, where a block has a least element to add, once an
// element.
func (g *blocks) dot() {
	y, rows, p, x0, count := g.arg("y"), g.arg("rows"), g.arg("row"), g.arg("x"), g.arg("blocks")
	x, turns := g.reg(), g.reg()
	acc, t := g.vecs(unroll), g.vecs(4)
	g.constants(x)
	row := g.label("row")
	g.mark(row)
	g.op("MOVD", x0, x)
	for _, a := range acc {
		g.v(zero(a))
	}
	g.repeat(count, unroll, turns, func(n int) {
		g.op("PRFM", at(p, fetchAhead), mem("PLDL1KEEP"))
		for i := range n {
			g.load(p, i*g.bytes)
			g.meet(x, 4*blockElements*i, acc[i], t)
		}
		g.op("ADD", n*g.bytes, p)
		g.op("ADD", n*4*blockElements, x)
	})
	g.v(fadd(acc[0], acc[0], acc[1]), faddp(acc[0], acc[0], acc[0]), faddp(acc[0], acc[0], acc[0]))
	g.v(strOn(acc[0], 4, y))
	g.op("SUBS", 1, rows)
	g.op("BNE", row)
	g.ret()
}

// meet adds the product of the loaded block with x to acc, in two sums beside each
// other.
func (g *blocks) meet(x reg, at int, acc vec, t []vec) {
	sums, x2 := t[:2], t[2:]
	for i, code := range g.values {
		if g.least { // code·d + m, which the rest takes for the code
			g.v(mov(x2[0], g.m), fmla(x2[0], code, g.d), mov(code, x2[0]))
		}
		xi := x2[i%2]
		g.v(ldr(xi, 16, x, at+16*i))
		if i < len(sums) {
			g.v(fmul(sums[i], code, xi))
		} else {
			g.v(fmla(sums[i%2], code, xi))
		}
	}
	g.v(fadd(sums[0], sums[0], sums[1]))
	if g.least {
		g.v(fadd(acc, acc, sums[0]))
	} else {
		g.v(fmla(acc, sums[0], g.d))
	}
}

// dequantise writes the elements of blocks; a product is rounded before anything is
// added to it.
func (g *blocks) dequantise() {
	dst, p, count := g.arg("dst"), g.arg("src"), g.arg("blocks")
	next := g.label("next")
	scratch := g.reg()
	g.constants(scratch)
	g.mark(next)
	g.load(p, 0)
	for i, x := range g.values {
		g.v(fmul(x, x, g.d))
		if g.least {
			g.v(fadd(x, x, g.m))
		}
		g.v(str(x, 16, dst, 16*i))
	}
	g.op("ADD", g.bytes, p)
	g.op("ADD", 4*blockElements, dst)
	g.op("SUBS", 1, count)
	g.op("BNE", next)
	g.ret()
}
