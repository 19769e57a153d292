package main

import (
	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// integer is an element type whose codes are integers that VPDPBUSD multiplies:
// unsigned bytes, which are codes plus bias, with signed ones, or signed with
// unsigned ones.
type integer struct {
	name string
	bits int
	bias int // of a code, and the magnitude that codes do not exceed
	full int // see integerAccumulate.full
}

var integers = []integer{{"I8", 8, 128, 120}, {"I4", 4, 8, 7}}

// channels is the number of a row's elements in a step of 32 bytes.
func (e integer) channels() int { return 32 * 8 / e.bits }

// A row of queries in fixed point is a head and digits:
//
//	start [4]int32   −bias·Σ of the digits of each weight
//	unit  float32    what a product of integers is worth, times 2 to the power of down
//	down  float32
//
// and for every four channels that meet the bytes of one word of a key, [4][4]int8:
// a digit of each channel, then the next digit.
const (
	digitsHead = 64
	digitsUnit = 16
	digitsDown = 20
	digitsQuad = 16 // bytes of four channels
	allDigits  = 4

	queryLargest = 127 << 24 // what the largest channel becomes
)

func integerDigitsFile(g *gen) {
	for _, e := range integers {
		integerDigits{gen: g, e: e}.emit()
	}
}

// integerDigits is the kernel that takes queries to fixed point: of each row, the integers
// nearest to q·127·2²⁴ / the largest, in four signed digits of base 256.
type integerDigits struct {
	*gen
	e integer
}

func (g integerDigits) emit() {
	g.TEXT("integerDigits"+g.e.name+g.suffix, "func(dst *byte, q *float32, rows, dim int) (coarse, loss float32)",
		"takes queries to fixed point. What a score may lose by it, for a key scale of 1, is at most loss, and coarse without the lowest digits; +Inf where a query is not finite.")
	dst, q, rows := g.param("dst"), g.param("q"), g.param("rows")
	coarse, loss := g.XMM(), g.XMM()
	g.VMOVAPS(g.zero().AsX(), coarse)
	g.VMOVAPS(g.zero().AsX(), loss)
	g.Label("row")
	top := g.largest(q)
	bits := g.GP32()
	g.VMOVD(top.AsX(), bits)
	g.CMPL(bits, op.U32(0x7f800000))
	g.JAE(op.LabelRef("infinite"))
	down, up, unit := g.vec(), g.vec(), g.vec()
	g.VPMAXUD(g.broadcast(1), top, top) // a row of zeros has an exponent, too
	g.VGETEXPPS(top, down)
	g.VGETMANTPS(op.U8(0), top, top)
	g.VMOVAPS(g.broadcast(float32bits(queryLargest)), up)
	g.VDIVPS(top, up, up)
	g.VMOVAPS(g.broadcast(float32bits(1)), unit)
	g.VDIVPS(up, unit, unit)
	d := g.digits(dst, q, down, up)
	g.head(dst, d.sum, unit, down)
	g.lose(d.lost, unit, down, loss)
	g.VCVTDQ2PS(d.lowest, d.lowest)
	g.VADDPS(d.lost, d.lowest, d.lowest)
	g.lose(d.lowest, unit, down, coarse)
	pitch := g.param("dim")
	g.LEAQ(op.Mem{Base: q, Index: pitch, Scale: 4}, q)
	g.LEAQ(op.Mem{Base: dst, Index: pitch, Scale: 4, Disp: digitsHead}, dst)
	g.DECQ(rows)
	g.JNZ(op.LabelRef("row"))
	g.Label("done")
	g.Store(coarse, g.ReturnIndex(0))
	g.Store(loss, g.ReturnIndex(1))
	g.VZEROUPPER()
	g.RET()
	g.Label("infinite")
	g.VMOVAPS(g.broadcast(0x7f800000).AsX(), coarse)
	g.VMOVAPS(coarse, loss)
	g.JMP(op.LabelRef("done"))
}

// lose takes how far a row's integers are off, in all, to what that is in a score, and into
// the most that any row's score loses.
func (g integerDigits) lose(off, unit, down reg.VecVirtual, most reg.VecVirtual) {
	lost := g.vec()
	g.VMOVAPS(off, lost)
	g.foldLanes(lost, func(a, b reg.VecVirtual) { g.VADDPS(a, b, b) })
	g.VMULPS(g.broadcast(float32bits(float32(g.e.bias))), lost, lost)
	g.VMULPS(unit, lost, lost)
	g.VSCALEFPS(down, lost, lost)
	g.VMAXPS(lost.AsX(), most, most)
}

// largest is the bits of the largest |q| of a row, in all lanes.
func (g integerDigits) largest(q reg.GPVirtual) reg.VecVirtual {
	magnitude, top := g.broadcast(0x7fffffff), g.zero()
	at, left := g.GP64(), g.param("dim")
	g.MOVQ(q, at)
	g.Label("largest")
	x := g.vec()
	g.VPANDD(op.Mem{Base: at}, magnitude, x)
	g.VPMAXUD(x, top, top)
	g.ADDQ(imm(64), at)
	g.SUBQ(imm(16), left)
	g.JNZ(op.LabelRef("largest"))
	g.foldLanes(top, func(a, b reg.VecVirtual) { g.VPMAXUD(a, b, b) })
	return top
}

// rowDigits is what is known of a row when its digits are written.
type rowDigits struct {
	sum    reg.VecVirtual // of the digits, in each 128 bits those of the four weights
	lost   reg.VecVirtual // how far integers lie from what they stand for
	lowest reg.VecVirtual // the sizes of the lowest digits, as integers
}

// digits writes a row's digits: those of x·up, x being q in units of 2 to the power of down.
func (g integerDigits) digits(dst, q reg.GPVirtual, down, up reg.VecVirtual) rowDigits {
	d := rowDigits{g.zero(), g.zero(), g.zero()}
	halves, ones, magnitude := g.broadcast(0x00808080), g.broadcast(0x01010101), g.broadcast(0x7fffffff)
	order, shift := g.vec(), g.vec()
	g.VMOVDQU32(g.digitOrder(), order)
	g.VSUBPS(down, g.zero(), shift)
	var even reg.VecVirtual
	if g.e.bits == 4 {
		even = g.vec()
		g.VMOVDQU32(g.table("evenFirst", 0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15), even)
	}
	at, to, left := g.GP64(), g.GP64(), g.param("dim")
	g.MOVQ(q, at)
	g.LEAQ(op.Mem{Base: dst, Disp: digitsHead}, to)
	g.Label("digits")
	x, product, n := g.vec(), g.vec(), g.vec()
	g.VMOVUPS(op.Mem{Base: at}, x)
	g.VSCALEFPS(shift, x, x)
	g.VMULPS(up, x, product)
	g.VFMSUB213PS(product, up, x) // what the product was rounded by
	round := func(x reg.VecVirtual) reg.VecVirtual {
		i, near := g.vec(), g.vec()
		g.VCVTPS2DQ(x, i)
		g.VCVTDQ2PS(i, near) // exact, as x has no more than 24 bits
		g.VSUBPS(near, x, x)
		g.VANDPS(magnitude, x, x)
		g.VADDPS(x, d.lost, d.lost)
		return i
	}
	g.VPADDD(round(product), round(x), n)
	low := g.vec()
	g.VPSLLD(op.U8(24), n, low)
	g.VPSRAD(op.U8(24), low, low)
	g.VPABSD(low, low)
	g.VPADDD(low, d.lowest, d.lowest)
	g.VPADDD(halves, n, n) // bytes are digits plus 128 now, but for the highest
	g.VPXORD(halves, n, n)
	if even != nil {
		g.VPERMD(n, even, n)
	}
	g.VPSHUFB(order, n, n)
	g.VPDPBUSD(n, ones, d.sum)
	g.VMOVDQU32(n, op.Mem{Base: to})
	g.ADDQ(imm(64), at)
	g.ADDQ(imm(64), to)
	g.SUBQ(imm(16), left)
	g.JNZ(op.LabelRef("digits"))
	return d
}

// digitOrder turns, in each 128 bits, four numbers into bytes of the same weight.
func (g *gen) digitOrder() op.Mem {
	var words []uint32
	for range 4 {
		words = append(words, 0x0c080400, 0x0d090501, 0x0e0a0602, 0x0f0b0703)
	}
	return g.table("digitOrder", words...)
}

// head writes a row's start, unit and down.
func (g integerDigits) head(dst reg.GPVirtual, sum, unit, down reg.VecVirtual) {
	g.foldQuarters(sum, func(a, b reg.VecVirtual) { g.VPADDD(a, b, b) })
	start := g.vec()
	g.VPSLLD(op.U8(log2(g.e.bias)), sum, sum)
	g.VPSUBD(sum, g.zero(), start)
	g.VMOVDQU32(start.AsX(), op.Mem{Base: dst})
	g.VMOVSS(unit.AsX(), op.Mem{Base: dst, Disp: digitsUnit})
	g.VMOVSS(down.AsX(), op.Mem{Base: dst, Disp: digitsDown})
}

// foldQuarters joins the four 128 bits of v, in each of them.
func (g *gen) foldQuarters(v reg.VecVirtual, join func(a, b reg.VecVirtual)) {
	for _, order := range []uint8{0x4e, 0xb1} {
		x := g.vec()
		g.VSHUFI32X4(op.U8(order), v, v, x)
		join(x, v)
	}
}

// foldLanes joins all lanes of v, in each of them.
func (g *gen) foldLanes(v reg.VecVirtual, join func(a, b reg.VecVirtual)) {
	g.foldQuarters(v, join)
	for _, order := range []uint8{0x4e, 0xb1} {
		x := g.vec()
		g.VPSHUFD(op.U8(order), v, x)
		join(x, v)
	}
}
