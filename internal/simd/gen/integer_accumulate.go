package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func integerAccumulateFile(g *gen) {
	for _, e := range integers {
		for _, r := range g.blocks {
			integerAccumulate{gen: g, e: e, rows: r}.emit()
		}
	}
}

// integerAccumulate is the kernel
//
//	o[r,d] = o[r,d]·α[r] + Σ_j p[r,j]·v_j[d]
//
// with a row's weights in fixed point: 24 bits from the exponent of the largest on,
// in three bytes. The sums are exact. VPDPBUSD takes four keys at once, whose bytes
// are interleaved for it.
type integerAccumulate struct {
	*gen
	e    integer
	rows int

	list    op.Mem // [tileKeys] addresses of values
	weights op.Mem // [rows][tileKeys/4][4 digits, the last zero][4 keys]uint8
	start   op.Mem // [rows][4]int32: −bias·Σ of each digit
	down    op.Mem // [rows][2]float32: what takes a sum to o, a power of two
}

const (
	weightDigits = 3
	weightBits   = 23 // of the largest weight, behind the point

	// leastWeight stands for a largest weight below it: what the digits lose then is
	// below 2⁻¹¹⁷ of any code, and a weight that is no score's is lifted by 2⁹⁶.
	leastWeight = 0x1p-100
)

func (g integerAccumulate) emit() {
	name := fmt.Sprintf("integerAccumulate%sx%d%s", g.e.name, g.rows, g.suffix)
	g.TEXT(name, "func(o *float32, dim int, p *float32, stride int, alpha *float32, v *byte, off *int, keys int, own int, "+aheadArgs+") (done bool)",
		fmt.Sprintf("computes o[r·dim+d] = o[r·dim+d]·alpha[r] + Σ_j p[r·stride+j]·v_j[d] for %d rows, with weights in fixed point. It is not done, and has written nothing, where these would not do: see Integer.", g.rows))
	g.Attributes(attr.Attribute(0)) // its frame is too large for NOSPLIT
	g.list = g.pointers("v")
	g.weights, g.start, g.down = g.AllocLocal(g.rows*4*tileKeys), g.AllocLocal(16*g.rows), g.AllocLocal(8*g.rows)
	g.fixWeights()
	at, left := g.AllocLocal(8), g.AllocLocal(8)
	g.MOVQ(g.param("dim"), left)
	g.MOVQ(imm(0), at)
	ahead := g.gen.ahead(g.steps())
	for _, channels := range g.passes() {
		label := fmt.Sprintf("channels%d", channels)
		g.Label(label)
		g.CMPQ(left, imm(channels))
		g.JLT(op.LabelRef(label + "done"))
		for first := 0; first < g.rows; first += passRows {
			g.pass(channels, first, min(passRows, g.rows-first), at, ahead)
		}
		g.ADDQ(imm(4*channels), g.paramMem("o"))
		g.ADDQ(imm(channels*g.e.bits/8), at)
		g.SUBQ(imm(channels), left)
		g.JMP(op.LabelRef(label))
		g.Label(label + "done")
	}
	ahead.rest()
	g.finish(1)
	g.Label("declined")
	g.finish(0)
}

// A pass takes so many channels of a row, or of two rows half as many: 24 sums of
// digits.
const (
	passRows     = 2
	passChannels = 128
)

// passes are the numbers of channels of passes, the largest first.
func (g integerAccumulate) passes() []int {
	if g.rows == 1 {
		return []int{passChannels, passChannels / 2}
	}
	return []int{passChannels / 2}
}

func (g integerAccumulate) finish(done uint32) {
	ret := g.GP32()
	g.MOVL(op.U32(done), ret)
	g.VZEROUPPER()
	g.Store(ret.As8(), g.ReturnIndex(0))
	g.RET()
}

// steps is how often the inner loops turn.
func (g integerAccumulate) steps() reg.GPVirtual {
	n, passes, one := g.param("keys"), g.param("dim"), g.GP64()
	g.ADDQ(imm(3), n)
	g.SHRQ(op.U8(2), n)
	g.MOVQ(imm(1), one)
	g.SHRQ(op.U8(log2(g.passes()[0])), passes)
	g.CMOVQEQ(one, passes)
	if g.rows > passRows {
		g.ADDQ(passes, passes)
	}
	g.IMULQ(passes, n)
	return n
}

// fixWeights takes the weights of all rows to fixed point. It declines where one is
// negative or not finite.
func (g integerAccumulate) fixWeights() {
	masks := g.keyMasks()
	zero, least, bits := g.zero(), g.broadcast(float32bits(leastWeight)), g.broadcast(float32bits(weightBits))
	one, order := g.broadcast(float32bits(1)), g.vec()
	g.VMOVDQU32(g.digitOrder(), order)
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
		g.full(r, x, top)
		up, down := g.vec(), g.vec()
		g.VPMAXUD(least, top, top)
		g.VGETEXPPS(top, down)
		g.VSUBPS(bits, down, down)
		g.VSUBPS(down, zero, up)
		g.VSCALEFPS(down, one, down)
		g.VMOVSS(down.AsX(), g.down.Offset(8*r))
		g.digits(r, x, up, order)
		if r < g.rows-1 {
			g.ADDQ(by, p)
		}
	}
}

// weightDigits writes a row's digits.
func (g integerAccumulate) digits(r int, x []reg.VecVirtual, up, order reg.VecVirtual) {
	var sum, bias reg.VecVirtual
	if g.e.bits == 4 {
		sum, bias = g.zero(), g.broadcast(uint32(256-g.e.bias)*0x01010101)
	}
	for i, x := range x {
		g.VSCALEFPS(up, x, x)
		g.VCVTPS2DQ(x, x)
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

// keyMasks are the masks of a tile's keys.
func (g integerAccumulate) keyMasks() []reg.OpmaskVirtual {
	ones := g.GP64()
	g.MOVQ(op.I32(-1), ones)
	g.BZHIQ(g.param("keys"), ones, ones)
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

// full declines, where values have scales of their own, unless the key of the
// largest weight has a code of nearly the largest size: what is lost of the other
// weights is small beside that weight, and must be small beside its value, too.
func (g integerAccumulate) full(r int, x []reg.VecVirtual, top reg.VecVirtual) {
	done := fmt.Sprintf("full%d", r)
	g.CMPQ(g.paramMem("own"), imm(0))
	g.JE(op.LabelRef(done))
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
	list, at, left := g.GP64(), g.GP64(), g.param("dim")
	g.LEAQ(g.list, list)
	g.MOVQ(op.Mem{Base: list, Index: first, Scale: 8}, at)
	loop := fmt.Sprintf("codes%d", r)
	g.Label(loop)
	found := g.K()
	g.fullCodes(at, found)
	g.KORTESTD(found, found)
	g.JNZ(op.LabelRef(done))
	g.ADDQ(imm(32), at)
	g.SUBQ(imm(g.e.channels()), left)
	g.JG(op.LabelRef(loop))
	n := g.GP32()
	g.VMOVD(top.AsX(), n)
	g.TESTL(n, n) // weights are all zero
	g.JNZ(op.LabelRef("declined"))
	g.Label(done)
}

// fullCodes finds codes of at least e.full in 32 bytes.
func (g integerAccumulate) fullCodes(at reg.GPVirtual, found reg.OpmaskVirtual) {
	const atLeast = 5
	codes := g.YMM()
	if g.e.bits == 8 {
		g.VPABSB(op.Mem{Base: at}, codes)
		g.VPCMPUB(op.U8(atLeast), g.broadcast(uint32(g.e.full)*0x01010101).AsY(), codes, found)
		return
	}
	// A nibble xor 8 is its code plus 8, so less 1 and full it is below 0 or above 15 − 2.
	flip, low := g.broadcast(0x88888888).AsY(), g.broadcast(0x0f0f0f0f).AsY()
	from, span := g.broadcast(uint32(g.e.bias-g.e.full+1)*0x01010101).AsY(), g.broadcast(uint32(2*g.e.full-1)*0x01010101).AsY()
	upper, other := g.YMM(), g.K()
	g.VMOVDQU32(op.Mem{Base: at}, codes)
	g.VPSRLW(op.U8(4), codes, upper)
	for _, half := range []struct {
		v reg.VecVirtual
		k reg.OpmaskVirtual
	}{{codes, found}, {upper, other}} {
		g.VPTERNLOGD(op.U8(xorAnd), low, flip, half.v)
		g.VPSUBB(from, half.v, half.v)
		g.VPCMPUB(op.U8(atLeast), span, half.v, half.k)
	}
	g.KORD(other, found, found)
}

// pass takes so many channels of some rows.
func (g integerAccumulate) pass(channels, first, rows int, at op.Mem, ahead *ahead) {
	label := fmt.Sprintf("keys%d", g.id())
	acc := g.sums(channels, first, rows)
	values := g.values(channels)
	weight, key, place, left := g.GP64(), g.GP64(), g.GP64(), g.param("keys")
	g.LEAQ(g.weights.Offset(4*tileKeys*first), weight)
	g.LEAQ(g.list, key)
	g.MOVQ(at, place)
	g.Label(label)
	ahead.step()
	values(key, place, func(i int, v [2]reg.VecVirtual) {
		for r := range acc {
			for t := range acc[r] {
				p := g.vec()
				g.VPBROADCASTD(op.Mem{Base: weight, Disp: 4*tileKeys*r + 4*t}, p)
				g.VPDPBUSD(v[0], p, acc[r][t][i])
				g.VPDPBUSD(v[1], p, acc[r][t][i+1])
			}
		}
	})
	g.ADDQ(imm(16), weight)
	g.ADDQ(imm(4*8), key)
	g.SUBQ(imm(4), left)
	g.JG(op.LabelRef(label))
	g.update(first, acc)
}

// sums begins a pass: the vectors of each digit of each row.
func (g integerAccumulate) sums(channels, first, rows int) [][weightDigits][]reg.VecVirtual {
	zero := g.zero()
	acc := make([][weightDigits][]reg.VecVirtual, rows)
	for r := range acc {
		for t := range acc[r] {
			acc[r][t] = g.vecs(channels / 16)
			for _, a := range acc[r][t] {
				if g.e.bits == 8 {
					g.VMOVDQA64(zero, a)
				} else {
					g.VPBROADCASTD(g.start.Offset(16*(first+r)+4*t), a)
				}
			}
		}
	}
	return acc
}

// values is the loader of four keys: it hands on two vectors of o at a time, whose
// words are the signed bytes of the four keys. See inOrder for where channels are.
func (g integerAccumulate) values(channels int) func(key, place reg.GPVirtual, use func(first int, v [2]reg.VecVirtual)) {
	row := func(key, place reg.GPVirtual, i, from int) op.Mem {
		p := g.GP64()
		g.MOVQ(op.Mem{Base: key, Disp: 8 * i}, p)
		return op.Mem{Base: p, Index: place, Scale: 1, Disp: from * g.e.bits / 8}
	}
	if g.e.bits == 8 {
		return func(key, place reg.GPVirtual, use func(int, [2]reg.VecVirtual)) {
			for from := 0; from < channels; from += 64 {
				a, b := g.vec(), g.vec()
				p, q := row(key, place, 1, from), row(key, place, 3, from)
				g.VMOVDQU32(row(key, place, 0, from), a)
				g.VMOVDQU32(row(key, place, 2, from), b)
				lower, other, upper, third := g.vec(), g.vec(), g.vec(), g.vec()
				g.VPUNPCKLBW(p, a, lower)
				g.VPUNPCKLBW(q, b, other)
				g.VPUNPCKLWD(other, lower, upper)
				g.VPUNPCKHWD(other, lower, lower)
				use(from/16, [2]reg.VecVirtual{upper, lower})
				g.VPUNPCKHBW(p, a, a)
				g.VPUNPCKHBW(q, b, b)
				g.VPUNPCKLWD(b, a, third)
				g.VPUNPCKHWD(b, a, a)
				use(from/16+2, [2]reg.VecVirtual{third, a})
			}
		}
	}
	low, order := g.broadcast(0x0f0f0f0f), g.vec()
	g.VMOVDQU32(g.pairOrder(), order)
	return func(key, place reg.GPVirtual, use func(int, [2]reg.VecVirtual)) {
		for from := 0; from < channels; from += 64 {
			a, b, v := g.vec(), g.vec(), g.vec()
			for i, z := range []reg.VecVirtual{a, b} {
				g.loadPart(row(key, place, 2*i, from), z.AsY(), z)
				g.VINSERTI64X4(op.U8(1), row(key, place, 2*i+1, from), z, z)
				g.VPERMB(z, order, z)
			}
			g.VPUNPCKLWD(b, a, v)
			use(from/16, g.nibbles(v, low))
			g.VPUNPCKHWD(b, a, a)
			use(from/16+2, g.nibbles(a, low))
		}
	}
}

// pairOrder takes 32 bytes each of two keys as words of a byte of both, four from the
// lower half beside four from the upper, so that unpacking leaves bytes in order.
func (g integerAccumulate) pairOrder() op.Mem {
	words := make([]uint32, 16)
	for i := range words {
		first := i/4*4 + i%2*2 // of the two bytes in this word
		if i%4 >= 2 {
			first += 16
		}
		b := uint32(first)
		words[i] = b | (32+b)<<8 | (b+1)<<16 | (33+b)<<24
	}
	return g.table("pairOrder", words...)
}

// nibbles splits bytes: the codes, plus their bias, of the lower halves and of the
// upper ones.
func (g integerAccumulate) nibbles(v, low reg.VecVirtual) [2]reg.VecVirtual {
	flip, upper := g.table("flip", 0x88888888), g.vec()
	g.VPSRLW(op.U8(4), v, upper)
	g.VPTERNLOGD_BCST(op.U8(andXor), flip, low, v)
	g.VPTERNLOGD_BCST(op.U8(andXor), flip, low, upper)
	return [2]reg.VecVirtual{v, upper}
}

// update is o = o·α + acc, with o not read where α is 0.
func (g integerAccumulate) update(first int, acc [][weightDigits][]reg.VecVirtual) {
	row, by, alpha := g.GP64(), g.param("dim"), g.param("alpha")
	g.SHLQ(op.U8(2), by)
	g.MOVQ(g.paramMem("o"), row)
	for range first {
		g.ADDQ(by, row)
	}
	for r, digits := range acc {
		a, down, live := g.vec(), g.vec(), g.K()
		g.VBROADCASTSS(op.Mem{Base: alpha, Disp: 4 * (first + r)}, a)
		g.VBROADCASTSS(g.down.Offset(8*(first+r)), down)
		g.VCMPPS(op.U8(notEqual), g.zero(), a, live)
		for i := range digits[0] {
			g.weigh(digits[0][i], digits[1][i], digits[2][i], down)
		}
		for from := 0; from < len(digits[0]); from += 4 {
			for i, sum := range g.inOrder(digits[0][from:][:4], digits[1][from:][:4]) {
				m, old := op.Mem{Base: row, Disp: 64 * (from + i)}, g.vec()
				g.VMOVUPS_Z(m, live, old)
				g.VFMADD231PS(old, a, sum)
				g.VMOVUPS(sum, m)
			}
		}
		if r < len(acc)-1 {
			g.ADDQ(by, row)
		}
	}
}

// weigh joins sums of three digits, the lowest first: their float32 is in low.
func (g integerAccumulate) weigh(low, middle, high, down reg.VecVirtual) {
	g.VPSLLD(op.U8(8), high, high)
	g.VPADDD(high, middle, middle)
	g.VCVTDQ2PS(middle, middle)
	g.VCVTDQ2PS(low, low)
	g.VFMADD231PS(g.broadcast(float32bits(1<<8)), middle, low)
	g.VMULPS(down, low, low)
}

// inOrder puts four vectors of sums in the order of channels; free are four registers
// to do it in. I8 has four channels of each 16 in a vector, I4 the even ones of 32 and
// then the odd ones.
func (g integerAccumulate) inOrder(sums, free []reg.VecVirtual) []reg.VecVirtual {
	if g.e.bits == 4 {
		for i := 0; i < 4; i += 2 {
			g.alternate(sums[i], sums[i+1], free[i])
		}
		return []reg.VecVirtual{free[0], sums[0], free[2], sums[2]}
	}
	for i := range 2 {
		g.VSHUFF32X4(op.U8(0x44), sums[2*i+1], sums[2*i], free[i])
		g.VSHUFF32X4(op.U8(0xee), sums[2*i+1], sums[2*i], free[2+i])
	}
	for i := range 2 {
		g.VSHUFF32X4(op.U8(0x88), free[2*i+1], free[2*i], sums[2*i])
		g.VSHUFF32X4(op.U8(0xdd), free[2*i+1], free[2*i], sums[2*i+1])
	}
	return sums
}

// alternate makes two vectors whose lanes are even's and odd's in turn: the first in
// dst, the second in even.
func (g integerAccumulate) alternate(even, odd, dst reg.VecVirtual) {
	var first, second []uint32
	for i := range uint32(8) {
		first = append(first, i, 16+i)
		second = append(second, 8+i, 24+i)
	}
	order := g.vec()
	g.VMOVDQU32(g.table("alternateFirst", first...), dst)
	g.VMOVDQU32(g.table("alternateSecond", second...), order)
	g.VPERMI2PS(odd, even, dst)
	g.VPERMT2PS(odd, order, even)
}
