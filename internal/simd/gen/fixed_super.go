package main

import (
	"fmt"

	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// superblock is a layout of 256 quantised elements in groups, each with a scale of its own.
type superblock struct {
	name  string
	bytes int
	six   bool // as Q6_K; else as Q4_K
	fifth bool // with fifth bits, as Q5_K
}

var superTypes = []superblock{
	{name: "Q4_K", bytes: 144}, {name: "Q5_K", bytes: 176, fifth: true}, {name: "Q6_K", bytes: 210, six: true},
}

// fixedSuper is fixedDot for superblocks: two chunks each, whose blocks of 32 are their groups, or pairs of
// groups.
type fixedSuper struct {
	*gen
	superblock
	low, high   reg.VecVirtual // of codes: the low halves of bytes; what is above them
	spread      reg.VecVirtual // shuffles a group's scale to its lanes
	first, then reg.VecVirtual // permutes codes to first and to second halves
	bit         [2]reg.VecVirtual
	turns       reg.VecVirtual // rotates upper bits to their place
}

func (g *fixedSuper) emit() {
	g.TEXT("fixed"+g.name+g.suffix, "func(y *float32, rows int, row *byte, x *byte, blocks int)",
		fmt.Sprintf("computes y[r] = Σ_c row_r[c]·x[c] over rows of so many %s blocks, at least 1, with x in fixed point.", g.name))
	g.setUp()
	zero := g.zero()
	y, rows, p := g.param("y"), g.param("rows"), g.param("row")
	x, left := g.GP64(), g.GP64()
	dots, sums := g.vec(), g.vec()

	g.Label("row")
	g.MOVQ(g.paramMem("x"), x)
	g.MOVQ(g.paramMem("blocks"), left)
	g.VMOVAPS(zero, dots)
	g.VMOVAPS(zero, sums)
	g.Label("block")
	for line := 0; line < g.bytes; line += 64 {
		g.PREFETCHT1(op.Mem{Base: p, Disp: fixedAhead + line})
	}
	chunk := g.groups(p)
	if g.six {
		chunk = g.pairs(p)
	}
	for i := range 2 {
		chunk(i, x, zero, dots, sums)
		g.ADDQ(imm(chunkBytes), x)
	}
	g.ADDQ(imm(g.bytes), p)
	g.DECQ(left)
	g.JNZ(op.LabelRef("block"))
	if g.six {
		g.VMULPS(g.broadcast(float32bits(-32)), sums, sums)
	}
	g.VADDPS(sums, dots, dots)
	g.VMOVSS((&blockKernel{gen: g.gen}).sum([]reg.VecVirtual{dots}), op.Mem{Base: y})
	g.ADDQ(imm(4), y)
	g.DECQ(rows)
	g.JNZ(op.LabelRef("row"))
	g.VZEROUPPER()
	g.RET()
}

// setUp makes the constants.
func (g *fixedSuper) setUp() {
	constant := func(name string, word func(i int) uint32) reg.VecVirtual {
		words, v := make([]uint32, 16), g.vec()
		for i := range words {
			words[i] = word(i)
		}
		g.VMOVDQU32(g.table(name+g.name, words...), v)
		return v
	}
	g.low = g.broadcast(0x0f0f0f0f)
	if g.six {
		g.high = g.broadcast(0x30303030)
		// Lanes 0 and 1 of each four have the scale of a block's first half, 2 and 3 that of its second, as
		// the lanes of Σx do.
		g.spread = constant("spread", func(i int) uint32 { return uint32(i/2)<<24 | 0x808080 })
		g.turns = constant("turns", func(i int) uint32 { return uint32(i/4*2-4) & 31 })
		return
	}
	g.spread = constant("spread", func(i int) uint32 { return 0x80808000 | uint32(i/4) })
	// Of 64 bytes, the first 32 hold groups 0 and 1, the others 2 and 3: quadwords of low halves, or 8
	// further on of high ones.
	order := func(from int) func(i int) uint32 {
		return func(i int) uint32 { return [2]uint32{uint32([]int{0, 8, 4, 12}[i/4] + i/2%2 + from), 0}[i%2] }
	}
	g.first, g.then = constant("first", order(0)), constant("then", order(2))
	if g.fifth {
		g.high = g.broadcast(0x10101010)
		for chunk := range g.bit {
			g.bit[chunk] = constant(fmt.Sprintf("bit%d", chunk), func(i int) uint32 { return 0x01010101 << (4*chunk + i/4) })
		}
	}
}

type chunkFunc func(i int, x reg.GPVirtual, zero, dots, sums reg.VecVirtual)

// groups reads a Q4_K or Q5_K block's numbers, and returns what adds its chunks.
func (g *fixedSuper) groups(p reg.GPVirtual) chunkFunc {
	d, e := g.halfAt(p, 0), g.halfAt(p, 2)
	scales, least := sixBits(g.gen, p)
	return func(i int, x reg.GPVirtual, zero, dots, sums reg.VecVirtual) {
		lo, hi := g.groupCodes(p, i)
		dot := g.fixedSum(zero, x, half{lo, 0}, half{hi, 1})
		g.VMULPS(op.Mem{Base: x, Disp: chunkScales}, dot, dot)
		s := g.vec()
		g.VPBROADCASTD(scales[i].As32(), s)
		g.VPSHUFB(g.spread, s, s)
		g.VCVTDQ2PS(s, s)
		g.VMULPS(d, s, s)
		g.VFMADD231PS(s, dot, dots)
		m := g.XMM()
		g.VMOVD(least[i].As32(), m)
		g.VPMOVZXBD(m, m)
		g.VCVTDQ2PS(m, m)
		g.VMULPS(e.AsX(), m, m)
		g.VFNMADD231PS(op.Mem{Base: x, Disp: chunkSums}, m, sums.AsX())
	}
}

// halfAt fills a vector with the float32 of a binary16.
func (g *fixedSuper) halfAt(p reg.GPVirtual, at int) reg.VecVirtual {
	return (&blockKernel{gen: g.gen}).half(op.Mem{Base: p, Disp: at})
}

// sixBits are the scales of the four groups of each chunk, and their minimums, a byte each. Those of the first
// chunk are the low six bits of eight bytes. Those of the second are halves of four more bytes, and above
// them the two upper bits of the eight.
func sixBits(g *gen, p reg.GPVirtual) (scales, least [2]reg.GPVirtual) {
	apart := g.GP64()
	g.MOVL(op.Mem{Base: p, Disp: 12}, apart.As32())
	for i, side := range []*[2]reg.GPVirtual{&scales, &least} {
		packed, upper, rest := g.GP64(), g.GP64(), g.GP64()
		g.MOVL(op.Mem{Base: p, Disp: 4 + 4*i}, packed.As32())
		g.MOVL(packed.As32(), upper.As32())
		g.ANDL(op.U32(0x3f3f3f3f), packed.As32())
		g.SHRL(op.U8(2), upper.As32())
		g.ANDL(op.U32(0x30303030), upper.As32())
		g.MOVL(apart.As32(), rest.As32())
		if i > 0 {
			g.SHRL(op.U8(4), rest.As32())
		}
		g.ANDL(op.U32(0x0f0f0f0f), rest.As32())
		g.ORL(rest.As32(), upper.As32())
		side[0], side[1] = packed, upper
	}
	return scales, least
}

// groupCodes are a chunk's codes, of the first and of the second halves of its four groups.
func (g *fixedSuper) groupCodes(p reg.GPVirtual, chunk int) (lo, hi reg.VecVirtual) {
	at := 16
	if g.fifth {
		at += 32
	}
	low, high := g.nibblesAt(p, at+64*chunk)
	lo, hi = g.vec(), g.vec()
	g.VMOVDQA32(g.first, lo)
	g.VPERMI2Q(high, low, lo)
	g.VMOVDQA32(g.then, hi)
	g.VPERMI2Q(high, low, hi)
	if g.fifth {
		for i, codes := range []reg.VecVirtual{lo, hi} {
			fifths, k := g.vec(), g.K()
			g.VBROADCASTI64X2(op.Mem{Base: p, Disp: 16 + 16*i}, fifths)
			g.VPTESTMB(g.bit[chunk], fifths, k)
			g.VPADDB(g.high, codes, k, codes)
		}
	}
	return lo, hi
}

// nibblesAt are the low and the high halves of 64 bytes.
func (g *fixedSuper) nibblesAt(p reg.GPVirtual, at int) (low, high reg.VecVirtual) {
	all, low, high := g.vec(), g.vec(), g.vec()
	g.VMOVDQU32(op.Mem{Base: p, Disp: at}, all)
	g.VPSRLW(op.U8(4), all, high)
	g.VPANDD(g.low, all, low)
	g.VPANDD(g.low, high, high)
	return low, high
}

// pairs reads a Q6_K block's d, and returns what adds its chunks: blocks whose halves have a scale each.
func (g *fixedSuper) pairs(p reg.GPVirtual) chunkFunc {
	const upperBits, scales, number = 128, 192, 208
	d := g.halfAt(p, number)
	return func(i int, x reg.GPVirtual, zero, dots, sums reg.VecVirtual) {
		low, high := g.nibblesAt(p, 64*i)
		codes := [2]reg.VecVirtual{g.vec(), g.vec()}
		g.VSHUFI64X2(op.U8(0x88), high, low, codes[0])
		g.VSHUFI64X2(op.U8(0xdd), high, low, codes[1])
		s := g.vec()
		g.VPBROADCASTQ(op.Mem{Base: p, Disp: scales + 8*i}, s)
		g.VPSHUFB(g.spread, s, s)
		g.VPSRAD(op.U8(24), s, s)
		g.VCVTDQ2PS(s, s)
		g.VMULPS(d, s, s)
		g.VFMADD231PS(op.Mem{Base: x, Disp: chunkParts}, s, sums)
		for which, c := range codes {
			upper, scale := g.vec(), g.vec()
			g.VBROADCASTI64X2(op.Mem{Base: p, Disp: upperBits + 32*i + 16*which}, upper)
			g.VPRORVD(g.turns, upper, upper)
			g.VPTERNLOGD(op.U8(0xf8), g.high, upper, c) // c | upper & high
			dot := g.fixedSum(zero, x, half{c, which})
			g.VMULPS(op.Mem{Base: x, Disp: chunkScales}, dot, dot)
			g.VPERMILPS(op.U8([2]uint8{0x00, 0xaa}[which]), s, scale)
			g.VFMADD231PS(scale, dot, dots)
		}
	}
}
