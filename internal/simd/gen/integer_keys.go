package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func integerKeysFile(g *gen) {
	integerKeys{integerScores{gen: g, e: integers[0], digits: queryDigits[0], rows: 1}}.emit()
}

// integerKeys is integerScores of one row of 128 elements of int8, for processors that do 512 bits in two halves: one key
// after the other, from front to back, half a line a load. Their prefetchers follow that, so it fetches nothing
// (docs/calibration.md). The query's digits stay in registers, and what lanes have of eight keys is added up at once.
type integerKeys struct{ integerScores }

const keyDim = 128

// keysTogether are the keys whose lanes are added up at once: a vector of sums.
const keysTogether = 8

func (g integerKeys) emit() {
	name := fmt.Sprintf("integerScores%d%s", g.digits, g.e.name)
	g.TEXT(fmt.Sprintf("%sof%d%s", name, keyDim, g.suffix),
		"func(s *float32, stride int, q *byte, dim int, k *byte, off *int, keys int, scales *float32, most float32, "+aheadArgs+") (left int)",
		fmt.Sprintf("computes what %sx1%s does, of rows of %d elements, and fetches nothing.", name, g.suffix, keyDim))
	g.Attributes(attr.Attribute(0)) // its frame is too large for NOSPLIT
	g.list = g.AllocLocal(8 * tileKeys)
	digits, masks := g.planes(), g.laneMasks()
	zero, flip := g.zero(), g.broadcast(0x80808080).AsY()
	key, s := g.GP64(), g.param("s")

	g.Label("tile")
	g.pointers(g.list, "k", tileKeys)
	g.LEAQ(g.list, key)
	g.Label("block")
	upper, lower := zero, zero
	for half := range uint8(2) {
		both := g.together(int(half)*keysTogether, keysTogether, masks, func(j int) [2]reg.VecVirtual {
			return g.key(op.Mem{Base: key, Disp: 8 * j}, flip, zero.AsY(), digits)
		})
		u, l := g.vec(), g.vec()
		g.VINSERTI64X4(op.U8(half), both[0], upper, u)
		g.VINSERTI64X4(op.U8(half), both[1], lower, l)
		upper, lower = u, l
	}
	g.store(s, func(int) (reg.VecVirtual, reg.VecVirtual) {
		q, start, more := g.param("q"), g.vec(), g.vec()
		g.VPADDD_BCST(op.Mem{Base: q, Disp: 4 * 3}, upper, upper)
		g.VPBROADCASTD(op.Mem{Base: q, Disp: 4 * 2}, start)
		g.VPBROADCASTD(op.Mem{Base: q, Disp: 4}, more)
		g.VPSLLD(op.U8(8), start, start)
		g.VPADDD(more, start, start)
		g.VPADDD(start, lower, lower)
		return upper, lower
	})
	g.nextBlock(s, key)

	g.Label("all")
	g.end()
}

// planes are the query's digits, the lowest first: vectors of as many channels as 32 bytes of a key are.
func (g integerKeys) planes() [][]reg.Register {
	q, planes := g.param("q"), make([][]reg.Register, g.digits)
	for i := range keyDim / 32 {
		a, b := g.vec(), g.vec()
		g.VMOVDQU32(op.Mem{Base: q, Disp: digitsHead + 128*i}, a)
		g.VMOVDQU32(op.Mem{Base: q, Disp: digitsHead + 128*i + 64}, b)
		for t := range planes {
			var words []uint32
			for j := range uint32(16) {
				words = append(words, 4*j%32+uint32(g.lowest()+t))
			}
			plane := g.vec()
			g.VMOVDQU32(g.table(fmt.Sprintf("plane%d", t), words...), plane)
			g.VPERMI2PS(b, a, plane)
			planes[t] = append(planes[t], plane.AsY())
		}
	}
	return planes
}

// key multiplies the key whose address lies at a place with the query: lanes of the upper digit's sum, and of the others'.
func (g integerKeys) key(at op.Mem, flip, zero reg.Register, digits [][]reg.Register) [2]reg.VecVirtual {
	p, acc := g.GP64(), []reg.VecVirtual{g.YMM(), g.YMM(), g.YMM()}
	g.MOVQ(at, p)
	for _, a := range acc {
		g.VMOVDQA32(zero, a)
	}
	for i := range keyDim / 32 {
		v := g.YMM()
		g.VPXORD(op.Mem{Base: p, Disp: 32 * i}, flip, v)
		for t, a := range acc {
			g.VPDPBUSD(digits[t][i], v, a)
		}
	}
	g.VPSLLD(op.U8(8), acc[1], acc[1])
	g.VPADDD(acc[0], acc[1], acc[1])
	return [2]reg.VecVirtual{acc[2], acc[1]}
}

// together adds up the lanes of n keys from key j on, of both of what key yields: in the end lane i is key j+i's.
func (g integerKeys) together(j, n int, masks laneMasks, key func(j int) [2]reg.VecVirtual) [2]reg.VecVirtual {
	if n == 1 {
		return key(j)
	}
	a, b := g.together(j, n/2, masks, key), g.together(j+n/2, n/2, masks, key)
	for i := range a {
		a[i] = g.join(n, masks, a[i], b[i])
	}
	return a
}

// laneMasks are two of each four lanes and the other two, and the first four lanes and the others.
type laneMasks struct{ pairs, fours [2]reg.OpmaskVirtual }

func (g integerKeys) laneMasks() laneMasks {
	of := func(lanes uint32) (both [2]reg.OpmaskVirtual) {
		for i, bits := range []uint32{lanes, 0xff &^ lanes} {
			word := g.GP32()
			both[i] = g.K()
			g.MOVL(op.U32(bits), word)
			g.KMOVW(word, both[i])
		}
		return both
	}
	return laneMasks{of(0x33), of(0x0f)}
}

// join adds up halves of what n/2 keys each have in a and in b.
func (g integerKeys) join(n int, masks laneMasks, a, b reg.VecVirtual) reg.VecVirtual {
	x := g.YMM()
	switch n {
	case 2: // of each 128 bits: a's half beside b's
		g.VPALIGNR(op.U8(8), a, b, x)
		g.VPADDD(a, x, masks.pairs[0], x)
		g.VPADDD(b, x, masks.pairs[1], x)
	case 4: // every other lane
		y := g.YMM()
		g.VSHUFPS(op.U8(0x88), b, a, x)
		g.VSHUFPS(op.U8(0xdd), b, a, y)
		g.VPADDD(y, x, x)
	case keysTogether: // 128 bits
		g.VSHUFI32X4(op.U8(1), b, a, x)
		g.VPADDD(a, x, masks.fours[0], x)
		g.VPADDD(b, x, masks.fours[1], x)
	}
	return x
}
