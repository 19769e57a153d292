package main

import (
	"fmt"
	"slices"

	"github.com/mmcloughlin/avo/attr"
	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func integerAccumulateFile(g *gen) {
	for _, digits := range weightDigits {
		for _, e := range integers {
			for _, r := range g.blocks {
				integerAccumulate{gen: g, e: e, digits: digits, rows: r}.emit()
			}
		}
	}
}

// integerAccumulate is the kernel
//
//	o[r,d] = o[r,d]·α[r] + Σ_j p[r,j]·v_j[d]
//
// with a row's weights in fixed point, in so many bytes: multiples of a part of the largest.
// The sums are exact. VPDPBUSD takes four keys at once, whose bytes are interleaved for it.
type integerAccumulate struct {
	*gen
	e      integer
	digits int
	rows   int

	list    op.Mem // [tileKeys] addresses of values
	weights op.Mem // [rows][tileKeys/4][4 digits, the upper ones zero][4 keys]uint8
	start   op.Mem // [rows][4]int32: −bias·Σ of each digit
	down    op.Mem // [rows][2]float32: what takes a sum to o, and the largest weight
	heavy   op.Mem // [rows] addresses of the values of the largest weights
	half    op.Mem // [rows][2][16]float32: sums of the first half of a pass's channels
}

// weightDigits are how many digits of weights there are kernels for.
var weightDigits = []int{2, 3}

// leastWeight stands for a largest weight below it: what the digits lose then is below
// 2⁻¹¹⁶ of any code, and a weight that is no score's is lifted by 2⁹⁶.
const leastWeight = 0x1p-100

// largest is what the largest weight becomes: rounding, or the dither, takes it no further than
// digits go.
func (g integerAccumulate) largest() float32 { return float32(uint32(1)<<(8*g.digits) - 2) }

func (g integerAccumulate) emit() {
	name := fmt.Sprintf("integerAccumulate%d%sx%d%s", g.digits, g.e.name, g.rows, g.suffix)
	g.TEXT(name, "func(o *float32, dim int, p *float32, stride int, alpha *float32, v *byte, off *int, keys int, scales *float32, most *float32, tile int, "+aheadArgs+") (left int)",
		fmt.Sprintf("computes o[r·dim+d] = o[r·dim+d]·alpha[r] + Σ_j p[r·stride+j]·v_j[d] for %d rows, tile by tile, with weights in fixed point, of %d digits. It ends before a tile where these would not do, and yields how many keys are left: see Integer.", g.rows, g.digits))
	g.Attributes(attr.Attribute(0)) // its frame is too large for NOSPLIT
	g.list = g.AllocLocal(8 * tileKeys)
	g.weights, g.start, g.down = g.AllocLocal(g.rows*4*tileKeys), g.AllocLocal(16*g.rows), g.AllocLocal(8*g.rows)
	g.heavy = g.AllocLocal(8 * g.rows)
	if g.inHalves() {
		g.half = g.AllocLocal(2 * 64 * g.rows)
	}
	at, left := g.AllocLocal(8), g.AllocLocal(8)
	ahead := g.gen.ahead(g.steps())

	g.Label("tile")
	g.pointers(g.list, "v", tileKeys)
	g.fixWeights()
	g.MOVQ(g.param("dim"), left)
	g.MOVQ(imm(0), at)
	for _, channels := range g.passes() {
		label := fmt.Sprintf("channels%d", channels)
		g.Label(label)
		g.CMPQ(left, imm(channels))
		g.JLT(op.LabelRef(label + "done"))
		g.pass(channels, at, ahead)
		g.ADDQ(imm(4*channels), g.paramMem("o"))
		g.ADDQ(imm(channels*g.e.bits/8), at)
		g.SUBQ(imm(channels), left)
		g.JMP(op.LabelRef(label))
		g.Label(label + "done")
	}
	g.SUBQ(imm(tileKeys), g.paramMem("keys"))
	g.JLE(op.LabelRef("all"))
	g.nextTile()
	g.JMP(op.LabelRef("tile"))

	g.Label("all")
	ahead.rest()
	g.MOVQ(imm(0), g.paramMem("keys"))
	g.Label("declined")
	ret := g.param("keys")
	g.VZEROUPPER()
	g.Store(ret, g.ReturnIndex(0))
	g.RET()
}

// nextTile moves on by a tile, whose rows of o have come down to their scores' maxima.
func (g integerAccumulate) nextTile() {
	ones, row := g.GP64(), g.param("dim")
	var words []uint32
	for range g.rows {
		words = append(words, float32bits(1))
	}
	g.LEAQ(g.table(fmt.Sprintf("ones%d", g.rows), words...), ones)
	g.MOVQ(ones, g.paramMem("alpha"))
	g.SHLQ(op.U8(2), row)
	g.SUBQ(row, g.paramMem("o"))
	g.ADDQ(imm(4*tileKeys), g.paramMem("p"))
	g.ADDQ(imm(8*tileKeys), g.paramMem("off"))
	g.nextScales(tileKeys)
	g.INCQ(g.paramMem("tile"))
}

// A pass takes so many channels of a row, or half as many of more rows; and where these would have more
// than 24 sums of digits, in two halves.
const (
	passChannels = 128
	passSums     = 24
)

// inHalves says that passes are in two halves, of which each unpacks half of what it reads.
func (g integerAccumulate) inHalves() bool { return g.rows*g.digits*passChannels/2/16 > passSums }

// passes are the numbers of channels of passes, the largest first.
func (g integerAccumulate) passes() []int {
	if g.rows == 1 {
		return []int{passChannels, passChannels / 2}
	}
	return []int{passChannels / 2}
}

// steps is how often the inner loops turn.
func (g integerAccumulate) steps() reg.GPVirtual {
	n, passes, one := g.param("keys"), g.param("dim"), g.GP64()
	g.ADDQ(imm(3), n)
	g.SHRQ(op.U8(2), n)
	g.MOVQ(imm(1), one)
	g.SHRQ(op.U8(log2(g.passes()[0])), passes)
	g.CMOVQEQ(one, passes)
	if g.inHalves() {
		g.ADDQ(passes, passes)
	}
	g.IMULQ(passes, n)
	return n
}

// pass takes so many channels.
func (g integerAccumulate) pass(channels int, at op.Mem, ahead *ahead) {
	values := []fourValues{g.values(channels)}
	if g.inHalves() {
		values = []fourValues{g.halfOfValues(0), g.halfOfValues(1)}
	}
	var acc [][][]reg.VecVirtual
	for half, four := range values {
		if half > 0 {
			g.put(acc)
		}
		acc = g.sums(channels / len(values))
		g.keys(four, at, acc, ahead)
	}
	g.full(at)
	g.update(acc)
}

// keys adds a tile's products to sums.
func (g integerAccumulate) keys(values fourValues, at op.Mem, acc [][][]reg.VecVirtual, ahead *ahead) {
	label := fmt.Sprintf("keys%d", g.id())
	weight, key, place, left, most := g.GP64(), g.GP64(), g.GP64(), g.param("keys"), g.GP64()
	g.MOVQ(imm(tileKeys), most)
	g.CMPQ(left, most)
	g.CMOVQGT(most, left)
	g.LEAQ(g.weights, weight)
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
}

// sums begins a pass, or a half of it: the vectors of each digit of each row.
func (g integerAccumulate) sums(channels int) [][][]reg.VecVirtual {
	zero := g.zero()
	acc := make([][][]reg.VecVirtual, g.rows)
	for r := range acc {
		acc[r] = make([][]reg.VecVirtual, g.digits)
		for t := range acc[r] {
			acc[r][t] = g.vecs(channels / 16)
			for _, a := range acc[r][t] {
				if g.e.bits == 8 {
					g.VMOVDQA64(zero, a)
				} else {
					g.VPBROADCASTD(g.start.Offset(16*r+4*t), a)
				}
			}
		}
	}
	return acc
}

// put puts the sums of a first half aside.
func (g integerAccumulate) put(acc [][][]reg.VecVirtual) {
	for r, digits := range acc {
		g.weigh(r, digits)
		for i, sum := range digits[0] {
			g.VMOVUPS(sum, g.half.Offset(64*(2*r+i)))
		}
	}
}

// update is o = o·α + acc, with o not read where α is 0.
func (g integerAccumulate) update(acc [][][]reg.VecVirtual) {
	row, by, alpha := g.GP64(), g.param("dim"), g.param("alpha")
	g.SHLQ(op.U8(2), by)
	g.MOVQ(g.paramMem("o"), row)
	for r, digits := range acc {
		a, live := g.vec(), g.K()
		g.VBROADCASTSS(op.Mem{Base: alpha, Disp: 4 * r}, a)
		g.VCMPPS(op.U8(notEqual), g.zero(), a, live)
		g.weigh(r, digits)
		sums, free := digits[0], slices.Concat(digits[1:]...)
		if g.inHalves() {
			first := g.vecs(2)
			for i, sum := range first {
				g.VMOVUPS(g.half.Offset(64*(2*r+i)), sum)
			}
			sums, free = append(first, sums...), append(free, g.vecs(2)...)
		}
		for from := 0; from < len(sums); from += 4 {
			for i, sum := range g.inOrder(sums[from:][:4], free[from:][:4]) {
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

// weigh joins a row's sums of digits, the lowest first: their float32 is in that one's place.
func (g integerAccumulate) weigh(r int, digits [][]reg.VecVirtual) {
	down := g.vec()
	g.VBROADCASTSS(g.down.Offset(8*r), down)
	for i, low := range digits[0] {
		upper := digits[1][i]
		if g.digits == 2 {
			g.VPSLLD(op.U8(8), upper, upper)
			g.VPADDD(upper, low, low)
			g.VCVTDQ2PS(low, low)
		} else {
			g.VPSLLD(op.U8(8), digits[2][i], digits[2][i])
			g.VPADDD(digits[2][i], upper, upper)
			g.VCVTDQ2PS(upper, upper)
			g.VCVTDQ2PS(low, low)
			g.VFMADD231PS(g.broadcast(float32bits(1<<8)), upper, low)
		}
		g.VMULPS(down, low, low)
	}
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
