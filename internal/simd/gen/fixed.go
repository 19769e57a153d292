package main

import (
	"fmt"

	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A chunk of x is some blocks in fixed point. What meets the same four bytes of two halves of a block's codes, a lane of
// eight elements, has a unit of its own; each element is an integer X of 16 bits times that, and X = 2⁸·h + l with
// digits from −128 to 127. In memory: the digits h of the blocks' first halves, then of the second halves, then l alike,
// 64 bytes each; the lanes' units; and sums of the elements as X has them.
const (
	numDigits   = 2
	chunkScales = 256
	chunkParts  = 320
	halfBytes   = 64 // a digit of the first, or second, halves of a chunk's blocks
)

// largestX is the largest X whose two digits are in range, and that of the largest element of a lane.
const largestX = 127<<8 + 127

// Four blocks fill a chunk. Their Σx are there in four parts, two of each half of a block, and
// then whole.
const (
	chunkBlocks = 4
	chunkBytes  = 448
	chunkSums   = 384
)

// Spread, three blocks lie as rows of Q4_1 do: what belongs to a block's numbers, 4 bytes, in front of
// what belongs to its codes, 16. The digits and units of the numbers are 0, and in place of parts there is what a
// lane's sum begins with: in theirs Σx, in others what takes spreadStart out again.
const (
	spreadBlocks = 3
	spreadBytes  = 384
)

// spreadStart is 1.5·2²³ as a float32: an integer of up to 22 bits that is added to it as if it were one is the float32
// 1.5·2²³ + that. A lane's sum is eight codes of up to 15 times X, below 2²².
const spreadStart = 0x4b400000

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
	f := fix{gen: g, form: to, magnitude: g.broadcast(0x7fffffff), half: g.broadcast(128), one: g.broadcast(float32bits(1)), top: g.vec(), order: g.vec()}
	g.VMOVAPS(g.zero(), f.top)
	g.VMOVDQU32(g.table("lanes", 0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), f.order)
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
	g.foldLanes(f.top, func(a, b reg.VecVirtual) { g.VPMAXUD(a, b, b) })
	bits := g.GP32()
	g.VMOVD(f.top.AsX(), bits)
	g.VZEROUPPER()
	g.Store(bits, g.ReturnIndex(0))
	g.RET()
}

type fix struct {
	*gen
	form
	magnitude reg.VecVirtual // without the sign
	half      reg.VecVirtual // of a digit's range
	one       reg.VecVirtual
	order     reg.VecVirtual // where a block's lanes are in a vector of its first half
	top       reg.VecVirtual // the largest magnitudes so far
}

// block writes block b of a chunk.
func (f *fix) block(chunk, b, x reg.GPVirtual) {
	lo, hi, place := f.vec(), f.vec(), f.GP64()
	f.IMUL3Q(imm(f.pitch), b, place)
	at := func(n int) op.Mem { return op.Mem{Base: chunk, Index: place, Scale: 1, Disp: n} }
	f.VMOVUPS(op.Mem{Base: x}, lo)
	f.VMOVUPS(op.Mem{Base: x, Disp: 64}, hi)
	unit := f.unit(lo, hi)
	f.integers(unit, lo, hi)
	sums := f.sums(f.times(unit, lo), f.times(unit, hi))
	units := f.vec()
	f.VPERMD(unit, f.order, units)
	f.VMOVUPS(units.AsX(), at(chunkScales+f.skip))
	if f.form == spreadForm {
		f.whole(sums, at(chunkParts))
		f.VMULPS(f.wide(1<<31|spreadStart), units.AsX(), units.AsX())
		f.VMOVUPS(units.AsX(), at(chunkParts+f.skip))
	} else {
		f.VMOVUPS(sums, at(chunkParts))
		f.whole(sums, op.Mem{Base: chunk, Index: b, Scale: 4, Disp: chunkSums})
	}
	f.digits(lo, at(f.skip))
	f.digits(hi, at(halfBytes+f.skip))
}

// unit is the largest magnitude of each lane over largestX, for its four elements of either half. It is rounded up to 22
// bits, so that spreadStart times it is exact, and a normal number whose inverse is one.
func (f *fix) unit(lo, hi reg.VecVirtual) reg.VecVirtual {
	a, b := f.vec(), f.vec()
	f.VPANDD(f.magnitude, lo, a)
	f.VPANDD(f.magnitude, hi, b)
	f.VPMAXUD(b, a, a)
	f.VPMAXUD(a, f.top, f.top)
	for _, order := range []uint8{0x4e, 0xb1} {
		f.VPSHUFD(op.U8(order), a, b)
		f.VPMAXUD(b, a, a)
	}
	f.VMULPS(f.wide(float32bits(1.0/largestX)), a, a)
	f.VPMAXUD(f.wide(1<<23), a, a)
	f.VPADDD(f.wide(3), a, a)
	f.VPANDD(f.wide(^uint32(3)), a, a)
	return a
}

// integers are the X of both halves.
func (f *fix) integers(unit, lo, hi reg.VecVirtual) {
	factor := f.vec()
	f.VDIVPS(unit, f.one, factor)
	for _, x := range []reg.VecVirtual{lo, hi} {
		f.VMULPS(factor, x, x)
		f.VCVTPS2DQ(x, x)
	}
}

// times is the elements that integers stand for.
func (f *fix) times(unit, x reg.VecVirtual) reg.VecVirtual {
	y := f.vec()
	f.VCVTDQ2PS(x, y)
	f.VMULPS(unit, y, y)
	return y
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

// digits stores the digits of 16 integers.
func (f *fix) digits(x reg.VecVirtual, to op.Mem) {
	f.VPMOVDB(x, disp(to, 2*halfBytes))
	f.VPADDD(f.half, x, x)
	f.VPSRAD(op.U8(8), x, x)
	f.VPMOVDB(x, to)
}

// wide is a constant in all lanes, in memory.
func (f *fix) wide(bits uint32) op.Mem {
	words := make([]uint32, f.gen.lanes)
	for i := range words {
		words[i] = bits
	}
	return f.table(fmt.Sprintf("fix%x", bits), words...)
}
