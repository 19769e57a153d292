package main

import (
	"fmt"

	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A chunk of x is four blocks in fixed point: each element is an integer X of 24 bits times its
// block's scale, a power of two, and X = 2¹⁶·h + 2⁸·m + l with digits from −128 to 127. In memory:
// the digits h of the four first halves of blocks, then of the second halves, then m and l alike, 64
// bytes each; the scales, each in four lanes; each block's Σx, in four parts, two of each of
// its halves; and then whole.
const (
	chunkBlocks = 4
	chunkBytes  = 576
	chunkScales = 384
	chunkParts  = 448
	chunkSums   = 512
	halfBytes   = 64 // a digit of the first, or second, halves of a chunk's blocks
)

// emitFix emits the kernel that turns x into fixed point.
func emitFix(g *gen) {
	g.TEXT("fix"+g.suffix, "func(dst *byte, x *float32, blocks int) uint32",
		"writes blocks of x, at least 1, as chunks of fixed point, and returns the bits of max |x|.")
	f := fix{gen: g, magnitude: g.broadcast(0x7fffffff), half: g.broadcast(128), top: g.XMM()}
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
	g.CMPQ(b, imm(chunkBlocks))
	g.JLT(op.LabelRef("block"))
	g.ADDQ(imm(chunkBytes), chunk)
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
	magnitude reg.VecVirtual // without the sign
	half      reg.VecVirtual // of a digit's range
	top       reg.VecVirtual // the largest magnitude so far
}

// block writes block b of a chunk.
func (f *fix) block(chunk, b, x reg.GPVirtual) {
	lo, hi, place := f.vec(), f.vec(), f.GP64()
	f.MOVQ(b, place)
	f.SHLQ(op.U8(4), place)
	at := func(n int) op.Mem { return op.Mem{Base: chunk, Index: place, Scale: 1, Disp: n} }
	f.VMOVUPS(op.Mem{Base: x}, lo)
	f.VMOVUPS(op.Mem{Base: x, Disp: 64}, hi)
	f.sums(lo, hi, at(chunkParts), op.Mem{Base: chunk, Index: b, Scale: 4, Disp: chunkSums})
	factor := f.scale(f.largest(lo, hi), at(chunkScales))
	f.digits(lo, factor, at(0))
	f.digits(hi, factor, at(halfBytes))
}

// sums stores Σx in four parts, two of each half of the block, and whole.
func (f *fix) sums(lo, hi reg.VecVirtual, parts, whole op.Mem) {
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
	f.VMOVUPS(a, parts)
	f.VHADDPS(a, a, a)
	f.VHADDPS(a, a, a)
	f.VMOVSS(a, whole)
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
