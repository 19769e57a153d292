package main

import (
	"encoding/binary"
	"fmt"
	"slices"

	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// fixedFile emits the products of blocks with an x in fixed point, for AVX-512 with VNNI: it multiplies
// 64 codes by as many digits at once, and adds up four products in each lane.
func fixedFile(g *gen) {
	emitFix(g, packedForm)
	emitFix(g, spreadForm)
	for _, b := range append(slices.Clone(blockTypes), fifthTypes...) {
		if b.name == "Q4_1" {
			(&spreadDot{gen: g, block: b}).emit()
		} else {
			(&fixedDot{gen: g, block: b}).emit()
		}
	}
	for _, b := range superTypes {
		(&fixedSuper{gen: g, superblock: b}).emit()
	}
}

// fifthTypes are blocks of codes of five bits: four as nibbles, and the fifth of all in 32 bits.
var fifthTypes = []block{
	{name: "Q5_0", bytes: 22, codes: 6, nibbles: true, offset: 16, fifth: 2},
	{name: "Q5_1", bytes: 24, codes: 8, nibbles: true, least: true, fifth: 4},
}

// fixedDot is the kernel
//
//	y[r] = Σ_c row_r[c]·x[c]
//
// for rows of blocks that follow one another in memory. With a block's codes c as unsigned bytes, some
// offset above what they stand for, it is taken apart:
//
//	Σ (d·(c − offset) + m)·x = d·Σ c·x + (m − offset·d)·Σ x
//
// The first sum is one of integers, exact: 16 lanes hold four of each of a chunk's blocks. The second is
// known beforehand. Both are added up over the row in float32.
type fixedDot struct {
	*gen
	block
	low, down  reg.VecVirtual // the low halves of bytes; what moves the upper ones there
	sign       reg.VecVirtual // what makes signed bytes unsigned
	codePlaces reg.VecVirtual // of codes in a chunk's bytes
	fifths     reg.VecVirtual // of fifth bits in a chunk's words
	sixteen    reg.VecVirtual // a fifth bit's worth
	places     reg.VecVirtual // of d and m in a chunk's words
	second     reg.Register   // mask of the words of a whole chunk beyond its first 64 bytes
	upper      reg.Register   // and of a vector's upper half, in quadwords
	words      reg.GPVirtual  // a bit for each word that a row's last chunk has
}

func (g *fixedDot) emit() {
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
	g.SUBQ(imm(chunkBlocks), left)
	g.JL(op.LabelRef("last"))
	g.Label("chunk")
	g.fetch(p)
	g.chunk(p, x, false, zero, dots, sums)
	g.ADDQ(imm(chunkBlocks*g.bytes), p)
	g.ADDQ(imm(chunkBytes), x)
	g.SUBQ(imm(chunkBlocks), left)
	g.JGE(op.LabelRef("chunk"))
	g.Label("last")
	g.ADDQ(imm(chunkBlocks), left)
	g.JZ(op.LabelRef("reduce"))
	g.fetch(p)
	g.chunk(p, x, true, zero, dots, sums)
	g.IMUL3Q(imm(g.bytes), left, left)
	g.ADDQ(left, p)
	g.Label("reduce")
	if !g.least {
		g.VMULPS(g.broadcast(float32bits(-g.above())), sums, sums)
	}
	g.VADDPS(sums, dots, dots)
	g.VMOVSS((&blockKernel{gen: g.gen}).sum([]reg.VecVirtual{dots}), op.Mem{Base: y})
	g.ADDQ(imm(4), y)
	g.DECQ(rows)
	g.JNZ(op.LabelRef("row"))
	g.VZEROUPPER()
	g.RET()
}

// fixedAhead is simd.DotLead: how far ahead of its work a kernel fetches, in bytes.
const fixedAhead = 10 << 10

// fetch fetches what lies so far ahead of a chunk.
func (g *fixedDot) fetch(p reg.GPVirtual) {
	for line := 0; line < chunkBlocks*g.bytes; line += 64 {
		g.PREFETCHT1(op.Mem{Base: p, Disp: fixedAhead + line})
	}
}

// upperHalves is the matrix with which VGF2P8AFFINEQB moves the upper half of each byte down, in one step: each bit of
// the lower half is the one four above it, and the others are none.
func (g *gen) upperHalves() reg.VecVirtual {
	bits, v := g.GP64(), g.vec()
	g.MOVQ(op.U64(0x1020408000000000), bits)
	g.VPBROADCASTQ(bits, v)
	return v
}

// above is how far unsigned codes lie above what they stand for.
func (g *fixedDot) above() float32 {
	if g.nibbles {
		return g.offset
	}
	return 128
}

// setUp makes the constants.
func (g *fixedDot) setUp() {
	if g.nibbles {
		g.low, g.down, g.codePlaces = g.broadcast(0x0f0f0f0f), g.upperHalves(), g.vec()
		places := make([]byte, 64)
		for i := range places {
			places[i] = byte(i/16*g.bytes + g.block.codes + i%16)
		}
		g.VMOVDQU32(g.byteTable("codes"+g.name, places), g.codePlaces)
	} else {
		g.sign, g.upper = g.broadcast(0x80808080), g.mask(0xf0)
	}
	if g.fifth != 0 {
		places := make([]byte, 64)
		for i := range 8 { // those of first halves, then those of second halves
			places[2*i] = byte(i%4*g.bytes/2 + g.fifth/2 + i/4)
		}
		g.fifths, g.sixteen = g.vec(), g.broadcast(0x10101010)
		g.VMOVDQU32(g.byteTable("fifths"+g.name, places), g.fifths)
	}
	places := make([]byte, 64)
	for i := range 32 { // each d in four words; then each m
		places[2*i] = byte(i / 4 * g.bytes / 2)
		if i >= 16 {
			places[2*i] = byte(i%4*g.bytes/2 + 1)
		}
	}
	g.places = g.vec()
	g.VMOVDQU32(g.byteTable("places"+g.name, places), g.places)
	if rest := (chunkBlocks*g.bytes - 64) / 2; rest < 32 {
		g.second = g.mask(1<<rest - 1)
	}
	last, ones := g.param("blocks"), g.GP64()
	g.ANDQ(imm(chunkBlocks-1), last)
	g.MOVQ(op.I64(-1), ones)
	g.words = g.GP64()
	g.IMUL3Q(imm(g.bytes/2), last, g.words)
	g.BZHIQ(g.words, ones, g.words)
}

// byteTable is table of bytes.
func (g *gen) byteTable(name string, bytes []byte) op.Mem {
	words := make([]uint32, len(bytes)/4)
	for i := range words {
		words[i] = binary.LittleEndian.Uint32(bytes[4*i:])
	}
	return g.table(name, words...)
}

// mask is a mask of constant bits.
func (g *gen) mask(bits uint32) reg.Register {
	n, k := g.GP32(), g.K()
	g.MOVL(op.U32(bits), n)
	g.KMOVD(n, k)
	return k
}

// wordsFrom is a mask of the last chunk's words, from some word on.
func (g *fixedDot) wordsFrom(n int) reg.Register {
	m, k := g.GP64(), g.K()
	g.MOVQ(g.words, m)
	if n > 0 {
		g.SHRQ(op.U8(uint8(n)), m)
	}
	g.KMOVD(m.As32(), k)
	return k
}

// chunk adds four blocks' parts, or those of a row's last blocks, fewer. Of these nothing beyond is read:
// in place of what is missing there are zeros.
func (g *fixedDot) chunk(p, x reg.GPVirtual, last bool, zero, dots, sums reg.VecVirtual) {
	first, second := g.load(p, last)
	var lo, hi reg.VecVirtual
	if g.nibbles {
		lo, hi = g.nibbleCodes(first, second)
		if g.fifth != 0 {
			g.addFifths(first, second, lo, hi)
		}
	} else {
		lo, hi = g.byteCodes(p, last)
	}
	dot := g.fixedSum(zero, x, half{lo, 0}, half{hi, 1})
	words := g.numbers(first, second)
	d := g.vec()
	g.VCVTPH2PS(words.AsY(), d)
	g.VMULPS(op.Mem{Base: x, Disp: chunkScales}, dot, dot)
	g.VFMADD231PS(d, dot, dots)
	if !g.least {
		g.VFMADD231PS(op.Mem{Base: x, Disp: chunkParts}, d, sums)
		return
	}
	m := g.XMM()
	g.VEXTRACTI32X4(op.U8(2), words, m)
	g.VCVTPH2PS(m, m)
	g.VFMADD231PS(op.Mem{Base: x, Disp: chunkSums}, m, sums.AsX())
}

// load reads a chunk's first 64 bytes, and up to as many more.
func (g *fixedDot) load(p reg.GPVirtual, last bool) (first, second reg.VecVirtual) {
	first, second = g.vec(), g.vec()
	if last {
		g.VMOVDQU16_Z(op.Mem{Base: p}, g.wordsFrom(0), first)
		g.VMOVDQU16_Z(op.Mem{Base: p, Disp: 64}, g.wordsFrom(32), second)
		return first, second
	}
	g.VMOVDQU32(op.Mem{Base: p}, first)
	if g.second == nil {
		g.VMOVDQU32(op.Mem{Base: p, Disp: 64}, second)
	} else {
		g.VMOVDQU16_Z(op.Mem{Base: p, Disp: 64}, g.second, second)
	}
	return first, second
}

// nibbleCodes are the codes of the four blocks' first and second halves.
func (g *fixedDot) nibbleCodes(first, second reg.VecVirtual) (lo, hi reg.VecVirtual) {
	all := g.vec()
	lo, hi = g.vec(), g.vec()
	g.VMOVDQA32(g.codePlaces, all)
	g.VPERMI2B(second, first, all)
	g.VGF2P8AFFINEQB(op.U8(0), g.down, all, hi)
	g.VPANDD(g.low, all, lo)
	return lo, hi
}

// byteCodes are the same of codes of 8 bits, made unsigned.
func (g *fixedDot) byteCodes(p reg.GPVirtual, last bool) (lo, hi reg.VecVirtual) {
	at := func(block int) op.Mem { return op.Mem{Base: p, Disp: block*g.bytes + g.block.codes} }
	ab, cd := g.vec(), g.vec()
	lo, hi = g.vec(), g.vec()
	if last {
		g.VMOVDQU16_Z(at(0), g.codeWords(0), ab.AsY())
		g.VMOVDQU16_Z(at(2), g.codeWords(2), cd.AsY())
		b := g.YMM()
		g.VMOVDQU16_Z(at(1), g.codeWords(1), b)
		g.VINSERTI64X4(op.U8(1), b, ab, ab)
	} else {
		g.VMOVDQU(at(0), ab.AsY())
		g.VMOVDQU(at(2), cd.AsY())
		g.VBROADCASTI64X4(at(1), g.upper, ab)
		g.VBROADCASTI64X4(at(3), g.upper, cd)
	}
	g.VSHUFI64X2(op.U8(0x88), cd, ab, lo)
	g.VSHUFI64X2(op.U8(0xdd), cd, ab, hi)
	g.VPXORD(g.sign, lo, lo)
	g.VPXORD(g.sign, hi, hi)
	return lo, hi
}

// codeWords is a mask of the words of a block's codes that the last chunk has: all or none.
func (g *fixedDot) codeWords(block int) reg.Register {
	return g.wordsFrom(block*g.bytes/2 + g.block.codes/2)
}

// addFifths adds the fifth bits.
func (g *fixedDot) addFifths(first, second, lo, hi reg.VecVirtual) {
	words, bits := g.vec(), g.GP64()
	g.VMOVDQA32(g.fifths, words)
	g.VPERMI2W(second, first, words)
	set := func(codes reg.VecVirtual) {
		k := g.K()
		g.KMOVQ(bits, k)
		g.VPADDB(g.sixteen, codes, k, codes)
	}
	g.VMOVQ(words.AsX(), bits)
	set(lo)
	g.VPEXTRQ(op.U8(1), words.AsX(), bits)
	set(hi)
}

// half is codes of the first (0) or second (1) halves of a chunk's blocks.
type half struct {
	codes reg.VecVirtual
	which int
}

// addDigit adds Σ c·(digit i of X) to each lane.
func (g *gen) addDigit(i int, s reg.VecVirtual, x reg.GPVirtual, halves ...half) {
	for _, h := range halves {
		g.VPDPBUSD(op.Mem{Base: x, Disp: (2*i + h.which) * halfBytes}, h.codes, s)
	}
}

// fixedSum is Σ c·X of each lane in float32, taken digit by digit: 2⁸·Σ c·h + Σ c·l. |X| is below 2¹⁵, so eight
// codes of 8 bits leave it below 2²⁶.
func (g *gen) fixedSum(zero reg.VecVirtual, x reg.GPVirtual, halves ...half) reg.VecVirtual {
	s := g.vec()
	g.VMOVAPS(zero, s)
	g.addDigit(0, s, x, halves...)
	for i := 1; i < numDigits; i++ {
		g.VPSLLD(op.U8(8), s, s)
		g.addDigit(i, s, x, halves...)
	}
	g.VCVTDQ2PS(s, s)
	return s
}

// numbers are words: the blocks' d, each four times, and their m, once each.
func (g *fixedDot) numbers(first, second reg.VecVirtual) reg.VecVirtual {
	words := g.vec()
	if (chunkBlocks-1)*g.bytes+4 <= 64 {
		g.VPERMW(first, g.places, words)
		return words
	}
	g.VMOVDQA32(g.places, words)
	g.VPERMI2W(second, first, words)
	return words
}
