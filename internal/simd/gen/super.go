package main

import (
	"fmt"

	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// superKernel is the kernel
//
//	y[r] = Σ_c row_r[c]·x[c]
//
// for superblocks and an x in float32, for processors without VNNI.
type superKernel struct {
	*gen
	superblock
	low, high reg.VecVirtual // masks of a code's parts
	offset    reg.VecVirtual // what Q6_K takes off codes
	scales    op.Mem         // of groups, as float32
	least     op.Mem         // what is taken off a group's elements, as float32
}

func (g *superKernel) emit() {
	g.TEXT("dot"+g.name+g.suffix, "func(y *float32, rows int, row *byte, x *float32, blocks int)",
		fmt.Sprintf("computes y[r] = Σ_c row_r[c]·x[c] over rows of so many %s blocks, at least 1.", g.name))
	g.low, g.high = g.broadcast(15), g.broadcast(16)
	if g.six {
		g.high, g.offset = g.broadcast(48), g.broadcast(32)
	}
	g.scales, g.least = g.AllocLocal(64), g.AllocLocal(64)
	bytes := g.AllocLocal(16)
	zero := g.zero()
	y, rows, p := g.param("y"), g.param("rows"), g.param("row")
	x, left := g.GP64(), g.GP64()
	acc := g.vec()

	g.Label("row")
	g.MOVQ(g.paramMem("x"), x)
	g.MOVQ(g.paramMem("blocks"), left)
	g.VMOVAPS(zero, acc)
	g.Label("block")
	for line := 0; line < g.bytes; line += 64 {
		g.PREFETCHT0(op.Mem{Base: p, Disp: fetchAhead + line})
	}
	if g.six {
		g.pairNumbers(p)
		for group := range 16 {
			g.group(p, x, acc, group, 16)
		}
	} else {
		g.groupNumbers(p, bytes)
		for group := range 8 {
			g.group(p, x, acc, group, 32)
		}
	}
	g.ADDQ(imm(g.bytes), p)
	g.ADDQ(imm(4*256), x)
	g.DECQ(left)
	g.JNZ(op.LabelRef("block"))
	g.VMOVSS((&blockKernel{gen: g.gen}).sum([]reg.VecVirtual{acc}), op.Mem{Base: y})
	g.ADDQ(imm(4), y)
	g.DECQ(rows)
	g.JNZ(op.LabelRef("row"))
	g.VZEROUPPER()
	g.RET()
}

// groupNumbers puts d·s and e·t of the 8 groups of a Q4_K or Q5_K block into the frame.
func (g *superKernel) groupNumbers(p reg.GPVirtual, bytes op.Mem) {
	scales, least := sixBits(g.gen, p)
	for i, side := range [2][2]reg.GPVirtual{scales, least} {
		for half, four := range side {
			g.MOVL(four.As32(), bytes.Offset(8*i+4*half))
		}
	}
	number := &blockKernel{gen: g.gen}
	for i, to := range []op.Mem{g.scales, g.least} {
		v := g.YMM()
		g.VPMOVZXBD(bytes.Offset(8*i), v)
		g.VCVTDQ2PS(v, v)
		g.VMULPS(number.half(op.Mem{Base: p, Disp: 2 * i}).AsY(), v, v)
		g.VMOVUPS(v, to)
	}
}

// pairNumbers puts d·s of the 16 groups of a Q6_K block into the frame.
func (g *superKernel) pairNumbers(p reg.GPVirtual) {
	d := (&blockKernel{gen: g.gen}).half(op.Mem{Base: p, Disp: 208}).AsY()
	for half := range 2 {
		v := g.YMM()
		g.VPMOVSXBD(op.Mem{Base: p, Disp: 192 + 8*half}, v)
		g.VCVTDQ2PS(v, v)
		g.VMULPS(d, v, v)
		g.VMOVUPS(v, g.scales.Offset(32*half))
	}
}

// group adds a group's part. Codes of Q6_K meet x and are scaled once a group; those with something to take off
// once an element.
func (g *superKernel) group(p, x reg.GPVirtual, acc reg.VecVirtual, group, elements int) {
	scale, least, dot := g.vec(), g.vec(), g.vec()
	g.VBROADCASTSS(g.scales.Offset(4*group), scale)
	if !g.six {
		g.VBROADCASTSS(g.least.Offset(4*group), least)
	}
	for at := 0; at < elements; at += g.lanes {
		xs := op.Mem{Base: x, Disp: 4 * (group*elements + at)}
		code := g.codes(p, group*elements+at)
		switch {
		case !g.six:
			g.VFMSUB213PS(least, scale, code) // code·scale − least
			g.VFMADD231PS(xs, code, acc)
		case at == 0:
			g.VMULPS(xs, code, dot)
		default:
			g.VFMADD231PS(xs, code, dot)
		}
	}
	if g.six {
		g.VFMADD231PS(scale, dot, acc)
	}
}

// codes are a vector of codes as float32, from some element of the block on.
func (g *superKernel) codes(p reg.GPVirtual, element int) reg.VecVirtual {
	v, upper := g.vec(), g.vec()
	at := func(n int) op.Mem { return op.Mem{Base: p, Disp: n} }
	// Runs of 32 elements: two share 32 bytes of Q4_K and Q5_K, four share 64 of Q6_K, where runs 0 and 1 have
	// the low halves.
	run, i := element/32, element%32
	low, shift := 16+run/2*32+i, run%2*4
	if g.fifth {
		low += 32
	}
	if g.six {
		low, shift = run/4*64+run%2*32+i, run%4/2*4
	}
	g.VPMOVZXBD(at(low), v)
	if shift > 0 {
		g.VPSRLD(op.U8(uint8(shift)), v, v)
	}
	g.and(g.low, v)
	// Bits above the nibble: bit run of byte i, or bits 2r and 2r+1 of it.
	from, bit := 0, 0
	switch {
	case g.fifth:
		from, bit = 16+i, run-4
	case g.six:
		from, bit = 128+run/4*32+i, run%4*2-4
	}
	if from > 0 {
		g.VPMOVZXBD(at(from), upper)
		if bit > 0 {
			g.VPSRLD(op.U8(uint8(bit)), upper, upper)
		} else if bit < 0 {
			g.VPSLLD(op.U8(uint8(-bit)), upper, upper)
		}
		g.and(g.high, upper)
		g.VPADDD(upper, v, v)
	}
	if g.six {
		g.VPSUBD(g.offset, v, v)
	}
	g.VCVTDQ2PS(v, v)
	return v
}

// and is v &= mask.
func (g *gen) and(mask, v reg.VecVirtual) {
	if g.lanes == 16 {
		g.VPANDD(mask, v, v)
	} else {
		g.VPAND(mask, v, v)
	}
}
