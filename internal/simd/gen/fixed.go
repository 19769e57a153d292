package main

import (
	"fmt"

	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A chunk of x is some blocks in fixed point: each element is an integer X of 24 bits times its
// block's scale, a power of two, and X = 2¹⁶·h + 2⁸·m + l with digits from −128 to 127. In memory:
// the digits h of the blocks' first halves, then of the second halves, then m and l alike, 64
// bytes each; the scales, each in four lanes; and the blocks' Σx.
const (
	chunkScales = 384
	chunkParts  = 448
	halfBytes   = 64 // a digit of the first, or second, halves of a chunk's blocks
)

// Four blocks fill a chunk. Their Σx are there in four parts, two of each half of a block, and
// then whole.
const (
	chunkBlocks = 4
	chunkBytes  = 576
	chunkSums   = 512
)

// Spread, three blocks lie as rows of Q4_1 do: what belongs to a block's numbers, 4 bytes, in front of
// what belongs to its codes, 16. The digits and scales of the numbers are 0, and their lanes have the Σx.
const (
	spreadBlocks = 3
	spreadBytes  = 512
)

// form is how the blocks of a chunk lie.
type form struct {
	name          string
	blocks, bytes int // of a chunk
	pitch, skip   int // of a block in 64 bytes, and what comes before its digits there
}

var (
	packedForm = form{name: "fix", blocks: chunkBlocks, bytes: chunkBytes, pitch: 16}
	spreadForm = form{name: "spread", blocks: spreadBlocks, bytes: spreadBytes, pitch: 20, skip: 4}
)

// emitFix emits the kernel that turns x into fixed point.
func emitFix(g *gen, to form) {
	g.TEXT(to.name+g.suffix, "func(dst *byte, x *float32, blocks int) uint32",
		fmt.Sprintf("writes blocks of x, at least 1, as fixed point in chunks of %d, and returns the bits of max |x|.", to.blocks))
	f := fix{gen: g, form: to, magnitude: g.broadcast(0x7fffffff), half: g.broadcast(128), top: g.XMM()}
	g.VMOVAPS(g.zero().AsX(), f.top)
	chunk, x, left, b := g.param("dst"), g.param("x"), g.param("blocks"), g.GP64()
	g.Label("chunk")
	g.XORQ(b, b)
	g.Label("block")
	f.block(chunk, b, x)
	g.ADDQ(imm(4*blockElements), x)
	g.DECQ(left)
	g.JZ(op.LabelRef("done"))
	g.INCQ(b)
	g.CMPQ(b, imm(to.blocks))
	g.JLT(op.LabelRef("block"))
	g.ADDQ(imm(to.bytes), chunk)
	g.JMP(op.LabelRef("chunk"))
	g.Label("done")
	bits := g.GP32()
	g.VMOVD(f.top, bits)
	g.VZEROUPPER()
	g.Store(bits, g.ReturnIndex(0))
	g.RET()
}

type fix struct {
	*gen
	form
	magnitude reg.VecVirtual // without the sign
	half      reg.VecVirtual // of a digit's range
	top       reg.VecVirtual // the largest magnitude so far
}

// block writes block b of a chunk.
func (f *fix) block(chunk, b, x reg.GPVirtual) {
	lo, hi, place := f.vec(), f.vec(), f.GP64()
	f.IMUL3Q(imm(f.pitch), b, place)
	at := func(n int) op.Mem { return op.Mem{Base: chunk, Index: place, Scale: 1, Disp: n} }
	f.VMOVUPS(op.Mem{Base: x}, lo)
	f.VMOVUPS(op.Mem{Base: x, Disp: 64}, hi)
	sums := f.sums(lo, hi)
	if f.form == spreadForm {
		f.whole(sums, at(chunkParts))
	} else {
		f.VMOVUPS(sums, at(chunkParts))
		f.whole(sums, op.Mem{Base: chunk, Index: b, Scale: 4, Disp: chunkSums})
	}
	factor := f.scale(f.largest(lo, hi), at(chunkScales+f.skip))
	f.digits(lo, factor, at(f.skip))
	f.digits(hi, factor, at(halfBytes+f.skip))
}

// sums is Σx in four parts, two of each half of the block.
func (f *fix) sums(lo, hi reg.VecVirtual) reg.VecVirtual {
	fold := func(v reg.VecVirtual) reg.VecVirtual {
		y, x := f.YMM(), f.XMM()
		f.VEXTRACTF64X4(op.U8(1), v, y)
		f.VADDPS(v.AsY(), y, y)
		f.VEXTRACTF128(op.U8(1), y, x)
		f.VADDPS(y.AsX(), x, x)
		return x
	}
	a, b := fold(lo), fold(hi)
	f.VHADDPS(b, a, a)
	return a
}

// whole stores the sum of four parts.
func (f *fix) whole(parts reg.VecVirtual, to op.Mem) {
	f.VHADDPS(parts, parts, parts)
	f.VHADDPS(parts, parts, parts)
	f.VMOVSS(parts, to)
}

// largest is max |x|, in all lanes; magnitudes are ordered as their bits are.
func (f *fix) largest(lo, hi reg.VecVirtual) reg.VecVirtual {
	a, b, y, x, t := f.vec(), f.vec(), f.YMM(), f.XMM(), f.XMM()
	f.VPANDD(f.magnitude, lo, a)
	f.VPANDD(f.magnitude, hi, b)
	f.VPMAXUD(b, a, a)
	f.VEXTRACTI64X4(op.U8(1), a, y)
	f.VPMAXUD(a.AsY(), y, y)
	f.VEXTRACTI128(op.U8(1), y, x)
	f.VPMAXUD(y.AsX(), x, x)
	for _, order := range []uint8{0x4e, 0xb1} {
		f.VPSHUFD(op.U8(order), x, t)
		f.VPMAXUD(t, x, x)
	}
	f.VPMAXUD(x, f.top, f.top)
	return x
}

// scale stores the block's scale 2^(e−22), and returns 2^(22−e), where |x| < 2^(e+1)·(1 − 2⁻⁷), so that
// |X| ≤ 2²³·(1 − 2⁻⁷): its first digit is in range. Both powers are normal numbers.
func (f *fix) scale(top reg.VecVirtual, to op.Mem) (factor reg.VecVirtual) {
	e, power, factor := f.XMM(), f.XMM(), f.vec()
	constant := func(bits uint32) op.Mem { return f.table(fmt.Sprintf("fix%d", bits), bits, bits, bits, bits) }
	f.VPADDD(constant(1<<17), top, e)
	f.VPSRLD(op.U8(23), e, e)
	f.VPMAXUD(constant(23), e, e)
	f.VPSUBD(constant(22), e, power)
	f.VPSLLD(op.U8(23), power, power)
	f.VMOVUPS(power, to)
	f.VMOVDQU(constant(276), power)
	f.VPSUBD(e, power, power)
	f.VPSLLD(op.U8(23), power, power)
	f.VBROADCASTSS(power, factor)
	return factor
}

// digits stores the three digits of 16 elements.
func (f *fix) digits(x, factor reg.VecVirtual, to op.Mem) {
	f.VMULPS(factor, x, x)
	f.VCVTPS2DQ(x, x)
	for digit := 2; ; digit-- {
		f.VPMOVDB(x, disp(to, 2*halfBytes*digit))
		if digit == 0 {
			return
		}
		f.VPADDD(f.half, x, x)
		f.VPSRAD(op.U8(8), x, x)
	}
}
