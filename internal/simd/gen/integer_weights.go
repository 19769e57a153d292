package main

import (
	"fmt"

	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// fixWeights takes the weights of all rows to fixed point. It declines where one is
// negative or not finite, and, for two digits, where the largest is above most.
func (g integerAccumulate) fixWeights() {
	masks := g.keyMasks()
	zero, order := g.zero(), g.vec()
	g.VMOVDQU32(g.digitOrder(), order)
	var dither []reg.VecVirtual
	if g.digits == 2 {
		dither = g.dither()
	}
	p, by := g.param("p"), g.param("stride")
	g.SHLQ(op.U8(2), by)
	for r := range g.rows {
		x, top := g.vecs(tileKeys/16), g.vec()
		for i, x := range x {
			g.VMOVUPS_Z(op.Mem{Base: p, Disp: 64 * i}, masks[i], x)
			g.VADDPS(zero, x, x) // −0 + 0 = 0
		}
		g.VPMAXUD(x[0], x[1], top)
		g.VPMAXUD(x[2], top, top)
		g.VPMAXUD(x[3], top, top)
		g.foldLanes(top, func(a, b reg.VecVirtual) { g.VPMAXUD(a, b, b) })
		n := g.GP32()
		g.VMOVD(top.AsX(), n)
		g.CMPL(n, op.U32(0x7f800000))
		g.JAE(op.LabelRef("declined"))
		g.MOVL(n, g.down.Offset(8*r+4))
		g.heaviest(r, x, top)
		g.digitsOf(r, x, dither, top, order)
		if r < g.rows-1 {
			g.ADDQ(by, p)
		}
	}
}

// digitsOf writes the digits of a row's weights. In three digits they are rounded to the nearest; in two
// up or down by the key's place and tile: as many small ones that are alike go up as keep their sum.
func (g integerAccumulate) digitsOf(r int, x, dither []reg.VecVirtual, top, order reg.VecVirtual) {
	g.VPMAXUD(g.broadcast(float32bits(leastWeight)), top, top)
	up, down := g.vec(), g.XMM()
	g.VMOVAPS(g.broadcast(float32bits(g.largest())), up)
	g.VDIVSS(top.AsX(), up.AsX(), up.AsX())
	g.VBROADCASTSS(up.AsX(), up)
	g.VMULSS(g.broadcast(float32bits(1/g.largest())).AsX(), top.AsX(), down)
	g.VMOVSS(down, g.down.Offset(8*r))
	var sum, bias reg.VecVirtual
	if g.e.bits == 4 {
		sum, bias = g.zero(), g.broadcast(uint32(256-g.e.bias)*0x01010101)
	}
	for i, x := range x {
		if g.digits == 2 {
			g.VFMADD213PS(dither[i], up, x)
			g.VCVTTPS2DQ(x, x)
		} else {
			g.VMULPS(up, x, x)
			g.VCVTPS2DQ(x, x)
		}
		g.VPSHUFB(order, x, x)
		g.VMOVDQU32(x, g.weights.Offset(4*tileKeys*r+64*i))
		if sum != nil {
			g.VPDPBUSD(bias, x, sum)
		}
	}
	if sum != nil {
		g.foldQuarters(sum, func(a, b reg.VecVirtual) { g.VPADDD(a, b, b) })
		g.VMOVDQU32(sum.AsX(), g.start.Offset(16*r))
	}
}

// The dither of a tile's keys is the numbers (k + ½)/64, k < 64, in an order of which 2ⁿ neighbours from a multiple
// of 2ⁿ on have one in each 2ⁿth of (0, 1), and which nothing regular follows: k is the key's
// number with the last bit first, where ditherTree, whose node 1 is the root, has flipped each bit or not by those
// before it. From tile to tile the golden ratio goes on: of t·ditherTurn, tile t's k are xor the upper six bits,
// so that a key's place comes by all k; and the next four say where in the order, by fours, its keys begin.
const (
	ditherTree uint64 = 0xebb56e285f1c9934
	ditherTurn uint32 = 0x9e3779b1 // 2³² by the golden ratio
)

// dither is that of the tile under way.
func (g integerAccumulate) dither() []reg.VecVirtual {
	var words []uint32
	for j := range uint64(tileKeys) {
		k, node := uint64(0), uint64(1)
		for b := range 6 {
			bit := j >> (5 - b) & 1
			k |= (bit ^ ditherTree>>node&1) << b
			node = 2*node + bit
		}
		words = append(words, float32bits(1+(float32(k)+0.5)/tileKeys)) // k is its upper bits of 23
	}
	order, turn, flip, one := g.GP64(), g.param("tile"), g.GP32(), g.broadcast(float32bits(1))
	g.IMUL3L(op.U32(ditherTurn), turn.As32(), turn.As32())
	g.MOVL(turn.As32(), flip)
	g.SHRL(op.U8(32-23), flip)
	g.ANDL(op.U32((tileKeys-1)<<(23-6)), flip)
	g.SHRL(op.U8(32-10-4), turn.As32())
	g.ANDL(op.U32(tileKeys/4-1)<<4, turn.As32()) // bytes of four words
	g.LEAQ(g.table("dither", append(words, words...)...), order)
	flips, x := g.vec(), g.vecs(tileKeys/16)
	g.VPBROADCASTD(flip, flips)
	for i, x := range x {
		g.VPXORD(op.Mem{Base: order, Index: turn, Scale: 1, Disp: 64 * i}, flips, x)
		g.VSUBPS(one, x, x)
	}
	return x
}

// keyMasks are the masks of a tile's keys.
func (g integerAccumulate) keyMasks() []reg.OpmaskVirtual {
	ones := g.GP64()
	g.MOVQ(op.I32(-1), ones)
	g.fewer(g.param("keys"), ones)
	masks := make([]reg.OpmaskVirtual, tileKeys/16)
	for i := range masks {
		masks[i] = g.K()
		g.KMOVW(ones.As32(), masks[i])
		if i < len(masks)-1 {
			g.SHRQ(op.U8(16), ones)
		}
	}
	return masks
}

// heaviest puts down where the value of a row's largest weight lies. For two digits, it
// declines a weight above most.
func (g integerAccumulate) heaviest(r int, x []reg.VecVirtual, top reg.VecVirtual) {
	first, word := g.GP64(), g.GP64()
	for i := range x {
		equal := g.K()
		g.VPCMPEQD(top, x[i], equal)
		if i == 0 {
			g.KMOVW(equal, first.As32())
			continue
		}
		g.KMOVW(equal, word.As32())
		g.SHLQ(op.U8(uint8(16*i)), word)
		g.ORQ(word, first)
	}
	g.TZCNTQ(first, first)
	if g.digits == 2 {
		g.notAbove(r, first, top)
	}
	list := g.GP64()
	g.LEAQ(g.list, list)
	g.MOVQ(op.Mem{Base: list, Index: first, Scale: 8}, first)
	g.MOVQ(first, g.heavy.Offset(8*r))
}

// notAbove declines a largest weight, that of key first, above most times the key's scale.
func (g integerAccumulate) notAbove(r int, first reg.GPVirtual, top reg.VecVirtual) {
	most, at, label := g.XMM(), g.param("most"), fmt.Sprintf("most%d", g.id())
	g.VMOVSS(op.Mem{Base: at, Disp: 4 * r}, most)
	scales := g.param("scales")
	g.TESTQ(scales, scales)
	g.JZ(op.LabelRef(label))
	g.VMULSS(op.Mem{Base: scales, Index: first, Scale: 4}, most, most)
	g.Label(label)
	g.VUCOMISS(top.AsX(), most)
	g.JCS(op.LabelRef("declined"))
}

// full declines, where values have scales of their own, unless the key of each row's
// largest weight has a code of nearly the largest size: what is lost of the other
// weights is small beside that weight, and must be small beside its value, too. It comes
// when the first sums are complete: before them, all would wait for what it reads.
func (g integerAccumulate) full(at op.Mem) {
	id := g.id()
	done := fmt.Sprintf("full%d", id)
	g.CMPQ(g.paramMem("scales"), imm(0))
	g.JE(op.LabelRef(done))
	g.CMPQ(at, imm(0)) // of the first pass
	g.JNE(op.LabelRef(done))
	for r := range g.rows {
		row, left, none, all := g.GP64(), g.param("dim"), g.GP32(), g.K()
		g.MOVQ(g.heavy.Offset(8*r), row)
		g.XORL(none, none)
		g.KMOVD(none, all)
		loop := fmt.Sprintf("codes%d", g.id())
		g.Label(loop)
		found := g.K()
		g.fullCodes(row, found)
		g.KORD(found, all, all)
		g.ADDQ(imm(32), row)
		g.SUBQ(imm(g.e.channels()), left)
		g.JG(op.LabelRef(loop))
		g.KORTESTD(all, all)
		next := fmt.Sprintf("full%dof%d", r, id)
		g.JNZ(op.LabelRef(next))
		g.CMPL(g.down.Offset(8*r+4), imm(0)) // weights are all zero
		g.JNE(op.LabelRef("declined"))
		g.Label(next)
	}
	g.Label(done)
}

// fullCodes finds codes of at least e.full in 32 bytes.
func (g integerAccumulate) fullCodes(at reg.GPVirtual, found reg.OpmaskVirtual) {
	const atLeast = 5
	bytes := func(name string, n int) op.Mem {
		words := make([]uint32, 8)
		for i := range words {
			words[i] = uint32(n) * 0x01010101
		}
		return g.table(name, words...)
	}
	codes := g.YMM()
	if g.e.bits == 8 {
		g.VPABSB(op.Mem{Base: at}, codes)
		g.VPCMPUB(op.U8(atLeast), bytes("fullI8", g.e.full), codes, found)
		return
	}
	// A nibble xor 8 is its code plus 8, so less 1 and full it is below 0 or above 15 − 2.
	flip, upper, other := g.broadcast(0x88888888).AsY(), g.YMM(), g.K()
	g.VMOVDQU32(op.Mem{Base: at}, codes)
	g.VPSRLW(op.U8(4), codes, upper)
	for _, half := range []struct {
		v reg.VecVirtual
		k reg.OpmaskVirtual
	}{{codes, found}, {upper, other}} {
		g.VPTERNLOGD_BCST(op.U8(xorAnd), g.table("lowNibbles", 0x0f0f0f0f), flip, half.v)
		g.VPSUBB(bytes("belowFullI4", g.e.bias-g.e.full+1), half.v, half.v)
		g.VPCMPUB(op.U8(atLeast), bytes("spanI4", 2*g.e.full-1), half.v, half.k)
	}
	g.KORD(other, found, found)
}
