package main

import (
	"fmt"

	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// block is a layout of 32 quantised elements.
type block struct {
	name    string
	bytes   int
	codes   int     // where its codes begin
	nibbles bool    // two codes a byte, those of the second half of the elements the high ones
	offset  float32 // what is taken off each code
	least   bool    // a second binary16 is added to each element
	fifth   int     // where the fifth bits of its codes are, 0 for none
}

var blockTypes = []block{
	{name: "Q4_0", bytes: 18, codes: 2, nibbles: true, offset: 8},
	{name: "Q4_1", bytes: 20, codes: 4, nibbles: true, least: true},
	{name: "Q8_0", bytes: 34, codes: 2},
}

func blocksFile(g *gen) {
	for _, b := range blockTypes {
		k := &blockKernel{gen: g, block: b}
		k.emitDot()
		k.emitDequantise()
	}
	for _, b := range superTypes {
		(&superKernel{gen: g, superblock: b}).emit()
	}
}

// blockKernel is what kernels for blocks of a layout have in common.
type blockKernel struct {
	*gen
	block
	constants struct{ low, values reg.VecVirtual }
}

const (
	blockElements = 32
	// fetchAhead is how far ahead of its work a kernel fetches, in bytes: memory is
	// one stream, but the processor's own prefetcher stops at pages.
	fetchAhead = 2048
	// unroll is how many blocks have accumulators of their own.
	unroll = 2
)

// emitDot emits the kernel
//
//	y[r] = Σ_c row_r[c]·x[c]
//
// for rows of blocks that follow one another in memory. Each block's codes become
// float32, meet x, and are scaled once a block, or, where a block has a least
// element to add, once an element.
func (g *blockKernel) emitDot() {
	g.TEXT("dot"+g.name+g.suffix, "func(y *float32, rows int, row *byte, x *float32, blocks int)",
		fmt.Sprintf("computes y[r] = Σ_c row_r[c]·x[c] over rows of so many %s blocks, at least 1.", g.name))
	g.setUp()
	zero := g.zero()
	acc := g.vecs(unroll * g.perBlock())
	y, rows, p := g.param("y"), g.param("rows"), g.param("row")
	x, left := g.GP64(), g.GP64()

	g.Label("row")
	g.MOVQ(g.paramMem("x"), x)
	g.MOVQ(g.paramMem("blocks"), left)
	for _, a := range acc {
		g.VMOVAPS(zero, a)
	}
	g.SUBQ(imm(unroll), left)
	g.JL(op.LabelRef("last"))
	g.Label("blocks")
	g.PREFETCHT0(op.Mem{Base: p, Disp: fetchAhead})
	for i := range unroll {
		g.one(p, x, i, acc[i*g.perBlock():][:g.perBlock()])
	}
	g.ADDQ(imm(unroll*g.bytes), p)
	g.ADDQ(imm(unroll*4*blockElements), x)
	g.SUBQ(imm(unroll), left)
	g.JGE(op.LabelRef("blocks"))
	g.Label("last")
	g.ADDQ(imm(unroll-1), left)
	g.JL(op.LabelRef("reduce"))
	g.one(p, x, 0, acc[:g.perBlock()])
	g.ADDQ(imm(g.bytes), p)
	g.Label("reduce")
	g.VMOVSS(g.sum(acc), op.Mem{Base: y})
	g.ADDQ(imm(4), y)
	g.DECQ(rows)
	g.JNZ(op.LabelRef("row"))
	g.VZEROUPPER()
	g.RET()
}

// emitDequantise emits the kernel that writes the elements of blocks. A product is
// rounded before anything is added to it, as in plain Go.
func (g *blockKernel) emitDequantise() {
	g.TEXT("dequantise"+g.name+g.suffix, "func(dst *float32, src *byte, blocks int)",
		fmt.Sprintf("writes the elements of so many %s blocks, at least 1.", g.name))
	g.setUp()
	dst, p, left := g.param("dst"), g.param("src"), g.param("blocks")
	g.Label("block")
	d := g.half(op.Mem{Base: p})
	var m reg.VecVirtual
	if g.least {
		m = g.half(op.Mem{Base: p, Disp: 2})
	}
	for j, v := range g.values(op.Mem{Base: p, Disp: g.codes}) {
		g.VMULPS(d, v, v)
		if g.least {
			g.VADDPS(m, v, v)
		}
		g.VMOVUPS(v, op.Mem{Base: dst, Disp: 4 * g.lanes * j})
	}
	g.ADDQ(imm(g.bytes), p)
	g.ADDQ(imm(4*blockElements), dst)
	g.DECQ(left)
	g.JNZ(op.LabelRef("block"))
	g.VZEROUPPER()
	g.RET()
}

// perBlock is the vectors of a block.
func (g *blockKernel) perBlock() int { return blockElements / g.lanes }

// setUp makes the constants: with 16 lanes a nibble looks its value up, and the
// rest of its lane does no harm; with 8 it is masked.
func (g *blockKernel) setUp() {
	if !g.nibbles {
		return
	}
	if g.lanes == 16 {
		values := make([]uint32, 16)
		for i := range values {
			values[i] = float32bits(float32(i) - g.offset)
		}
		g.constants.values = g.vec()
		g.VMOVUPS(g.table("values"+g.name, values...), g.constants.values)
		return
	}
	g.constants.low = g.broadcast(15)
	if g.offset != 0 {
		g.constants.values = g.broadcast(float32bits(g.offset))
	}
}

// one adds block i from p on, whose elements meet x from element 32·i on.
func (g *blockKernel) one(p, x reg.GPVirtual, i int, acc []reg.VecVirtual) {
	at := i * g.bytes
	d := g.half(op.Mem{Base: p, Disp: at})
	v := g.values(op.Mem{Base: p, Disp: at + g.codes})
	xs := func(j int) op.Mem { return op.Mem{Base: x, Disp: 4 * (i*blockElements + j*g.lanes)} }
	if g.least {
		m := g.half(op.Mem{Base: p, Disp: at + 2})
		for j := range v {
			g.VFMADD213PS(m, d, v[j]) // v·d + m
			g.VFMADD231PS(xs(j), v[j], acc[j])
		}
		return
	}
	g.VMULPS(xs(0), v[0], v[0])
	for j := 1; j < len(v); j++ {
		g.VFMADD231PS(xs(j), v[j], v[0])
	}
	g.VFMADD231PS(d, v[0], acc[0])
}

// half fills a vector with the float32 of a binary16: converted alone, for a
// conversion of a whole vector costs more than a broadcast.
func (g *blockKernel) half(m op.Mem) reg.VecVirtual {
	v, h := g.vec(), g.XMM()
	g.VPBROADCASTW(m, h)
	g.VCVTPH2PS(h, h)
	g.VBROADCASTSS(h, v)
	return v
}

// values are a block's codes as float32, in the elements' order.
func (g *blockKernel) values(m op.Mem) []reg.VecVirtual {
	v := g.vecs(g.perBlock())
	at := func(n int) op.Mem { return op.Mem{Base: m.Base, Disp: m.Disp + n} }
	switch {
	case !g.nibbles:
		for j := range v {
			g.VPMOVSXBD(at(j*g.lanes), v[j])
			g.VCVTDQ2PS(v[j], v[j])
		}
	case g.lanes == 16:
		low, high := g.vec(), g.vec()
		g.VPMOVZXBD(m, low)
		g.VPSRLD(op.U8(4), low, high)
		g.VPERMPS(g.constants.values, low, v[0])
		g.VPERMPS(g.constants.values, high, v[1])
	default:
		for j := range 2 {
			bytes := g.vec()
			g.VPMOVZXBD(at(j*g.lanes), bytes)
			g.VPAND(g.constants.low, bytes, v[j])
			g.VPSRLD(op.U8(4), bytes, v[j+2])
		}
		for j := range v {
			g.VCVTDQ2PS(v[j], v[j])
			if g.offset != 0 {
				g.VSUBPS(g.constants.values, v[j], v[j])
			}
		}
	}
	return v
}

// sum is the sum of all lanes of all accumulators, in the lowest lane.
func (g *blockKernel) sum(acc []reg.VecVirtual) reg.VecVirtual {
	for n := len(acc); n > 1; n /= 2 {
		for i := range n / 2 {
			g.VADDPS(acc[i+n/2], acc[i], acc[i])
		}
	}
	y := acc[0].AsY()
	if g.lanes == 16 {
		upper := g.YMM()
		g.VEXTRACTF64X4(op.U8(1), acc[0], upper)
		g.VADDPS(upper, y, y)
	}
	x, upper := g.XMM(), g.XMM()
	g.VEXTRACTF128(op.U8(1), y, upper)
	g.VADDPS(upper, acc[0].AsX(), x)
	g.VMOVHLPS(x, x, upper)
	g.VADDPS(upper, x, x)
	g.VMOVSHDUP(x, upper)
	g.VADDSS(upper, x, x)
	return x
}
