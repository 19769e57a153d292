package main

import (
	"fmt"

	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// spreadDot is fixedDot for rows of Q4_1, whose codes are taken where they lie: with an x that is spread, no
// byte of theirs has to be moved. A block is a lane of its numbers d and m and four of codes. All five meet x
// alike, as an integer Σ c·X times the unit, and in the lane of the numbers, whose digits and unit are 0, plus Σx. The
// integer is added to the bits of spreadStart, which makes a float32 of it, and with the unit that is taken out. Then
// lanes of codes are multiplied by d, and that of the numbers by m.
//
// Four rows share the loads of x, which are more than a row's own.
type spreadDot struct {
	*gen
	block
	low, upper  reg.VecVirtual // the low halves of bytes; what moves the upper ones there
	numbers     reg.VecVirtual // where a lane's d or m is, in words
	last        reg.Register   // mask of the lanes of a row's last chunk
	zero        reg.VecVirtual
	start       reg.VecVirtual // spreadStart, once it has made room for a digit
	y, left, p  reg.GPVirtual
	row, thrice reg.GPVirtual // bytes of a row, and of three
	chunks      reg.GPVirtual // before a row's last
}

func (g *spreadDot) emit() {
	g.TEXT("fixed"+g.name+g.suffix, "func(y *float32, rows int, row *byte, x *byte, blocks int)",
		fmt.Sprintf("computes y[r] = Σ_c row_r[c]·x[c] over rows of so many %s blocks, at least 1, with x in fixed point that is spread.", g.name))
	g.setUp()
	g.Label("rows")
	g.SUBQ(imm(rowsTogether), g.left)
	g.JL(op.LabelRef("rest"))
	sums := g.rows(rowsTogether)
	g.VMOVUPS((scores{gen: g.gen, e: elem{scale: 1}}).reduce(sums).AsX(), op.Mem{Base: g.y})
	g.ADDQ(imm(4*rowsTogether), g.y)
	g.LEAQ(op.Mem{Base: g.p, Index: g.row, Scale: rowsTogether}, g.p)
	g.JMP(op.LabelRef("rows"))
	g.Label("rest")
	g.ADDQ(imm(rowsTogether), g.left)
	g.JZ(op.LabelRef("done"))
	g.Label("single")
	sums = g.rows(1)
	g.VMOVSS((&blockKernel{gen: g.gen}).sum(sums), op.Mem{Base: g.y})
	g.ADDQ(imm(4), g.y)
	g.ADDQ(g.row, g.p)
	g.DECQ(g.left)
	g.JNZ(op.LabelRef("single"))
	g.Label("done")
	g.VZEROUPPER()
	g.RET()
}

// rowsTogether is how many rows go through x together.
const rowsTogether = 4

// setUp makes the constants, and loads what the kernel is given.
func (g *spreadDot) setUp() {
	g.low, g.upper, g.zero, g.numbers = g.broadcast(0x0f0f0f0f), g.upperHalves(), g.gen.zero(), g.vec()
	g.start = g.broadcast(spreadStart >> 8)
	places := make([]byte, 64)
	for lane := range 16 { // the last one has nothing
		places[2*lane] = byte(lane / 5 * g.bytes / 2)
		if lane%5 == 0 {
			places[2*lane]++
		}
	}
	g.VMOVDQU32(g.byteTable("numbers"+g.name, places), g.numbers)
	g.y, g.left, g.p = g.param("y"), g.param("rows"), g.param("row")
	g.row, g.thrice = g.param("blocks"), g.GP64()
	g.chunks = g.GP64()
	g.LEAQ(op.Mem{Base: g.row, Disp: -1}, g.chunks)
	g.third(g.chunks)
	g.last = g.lastLanes(g.row, g.chunks)
	g.IMUL3Q(imm(g.bytes), g.row, g.row)
	g.LEAQ(op.Mem{Base: g.row, Index: g.row, Scale: 2}, g.thrice)
}

// third is n = ⌊n/3⌋, for n below 2³¹.
func (g *spreadDot) third(n reg.GPVirtual) {
	by := g.GP64()
	g.MOVQ(op.U64(1<<32/3+1), by)
	g.IMULQ(by, n)
	g.SHRQ(op.U8(32), n)
}

// lastLanes is a mask of the lanes of a row's last chunk.
func (g *spreadDot) lastLanes(blocks, before reg.GPVirtual) reg.Register {
	n, ones, k := g.GP64(), g.GP64(), g.K()
	g.LEAQ(op.Mem{Base: before, Index: before, Scale: 2}, n)
	g.NEGQ(n)
	g.ADDQ(blocks, n)
	g.LEAQ(op.Mem{Base: n, Index: n, Scale: 4}, n)
	g.MOVQ(op.I64(-1), ones)
	g.BZHIQ(n, ones, ones)
	g.KMOVW(ones.As32(), k)
	return k
}

// rows multiplies the next n rows, and returns the lanes of their sums.
func (g *spreadDot) rows(n int) []reg.VecVirtual {
	q, x, ahead, left := g.GP64(), g.GP64(), g.GP64(), g.GP64()
	loop, last := fmt.Sprintf("chunk%d", n), fmt.Sprintf("last%d", n)
	sums := g.vecs(n)
	for _, s := range sums {
		g.VMOVAPS(g.zero, s)
	}
	g.MOVQ(g.p, q)
	g.MOVQ(g.paramMem("x"), x)
	g.LEAQ(op.Mem{Base: g.p, Disp: fixedAhead}, ahead)
	g.MOVQ(g.chunks, left)
	g.TESTQ(left, left)
	g.JZ(op.LabelRef(last))
	g.Label(loop)
	g.fetch(ahead, n)
	g.chunk(q, x, nil, sums)
	g.ADDQ(imm(spreadBlocks*g.bytes), q)
	g.ADDQ(imm(spreadBytes), x)
	g.DECQ(left)
	g.JNZ(op.LabelRef(loop))
	g.Label(last)
	g.fetch(ahead, n)
	g.chunk(q, x, g.last, sums)
	return sums
}

// fetch fetches as many bytes as n rows' chunks have, in the order of memory.
func (g *spreadDot) fetch(ahead reg.GPVirtual, n int) {
	for line := 0; line < n*spreadBlocks*g.bytes; line += 64 {
		g.PREFETCHT1(op.Mem{Base: ahead, Disp: line})
	}
	g.ADDQ(imm(n*spreadBlocks*g.bytes), ahead)
}

// at is where row i of those that go together is at q.
func (g *spreadDot) at(q reg.GPVirtual, i int) op.Mem {
	switch i {
	case 0:
		return op.Mem{Base: q}
	case 3:
		return op.Mem{Base: q, Index: g.thrice, Scale: 1}
	}
	return op.Mem{Base: q, Index: g.row, Scale: uint8(i)}
}

// chunk adds the parts of a chunk's lanes. Rows take each step together: none then waits for its own last one.
func (g *spreadDot) chunk(q, x reg.GPVirtual, lanes reg.Register, sums []reg.VecVirtual) {
	n := len(sums)
	raw, lo, hi, dot := g.vecs(n), g.vecs(n), g.vecs(n), g.vecs(n)
	each := func(step func(i int)) {
		for i := range n {
			step(i)
		}
	}
	each(func(i int) {
		if lanes == nil {
			g.VMOVDQU32(g.at(q, i), raw[i])
		} else {
			g.VMOVDQU32_Z(g.at(q, i), lanes, raw[i])
		}
	})
	each(func(i int) { g.VGF2P8AFFINEQB(op.U8(0), g.upper, raw[i], hi[i]); g.VPANDD(g.low, raw[i], lo[i]) })
	each(func(i int) { g.VMOVAPS(g.start, dot[i]) })
	for digit := range numDigits {
		if digit > 0 {
			each(func(i int) { g.VPSLLD(op.U8(8), dot[i], dot[i]) })
		}
		for which, codes := range [][]reg.VecVirtual{lo, hi} {
			digits := g.fromX(x, (2*digit+which)*halfBytes)
			each(func(i int) { g.VPDPBUSD(digits, codes[i], dot[i]) })
		}
		if digit == 0 {
			each(func(i int) { g.VPERMW(raw[i], g.numbers, raw[i]) })
			each(func(i int) { g.VCVTPH2PS(raw[i].AsY(), raw[i]) })
		}
	}
	scales, x1 := g.fromX(x, chunkScales), g.fromX(x, chunkParts)
	each(func(i int) { g.VFMADD213PS(x1, scales, dot[i]) })
	each(func(i int) { g.VFMADD231PS(raw[i], dot[i], sums[i]) })
}

// fromX loads a vector of x.
func (g *spreadDot) fromX(x reg.GPVirtual, at int) reg.VecVirtual {
	v := g.vec()
	g.VMOVDQA32(op.Mem{Base: x, Disp: at}, v)
	return v
}
