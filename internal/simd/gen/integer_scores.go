package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func integerScoresFile(g *gen) {
	for _, digits := range queryDigits {
		for _, e := range integers {
			for _, r := range g.blocks {
				integerScores{gen: g, e: e, digits: digits, rows: r}.emit()
			}
		}
	}
}

// integerScores is the kernel
//
//	s[r,j] = scales[j]·Σ_d q[r,d]·k_j[d]
//
// for queries in fixed point, of which it takes the upper digits, so many or all: the sums
// are exact. Sixteen keys make a block. They
// are transposed, 32 bytes of each at a time, so that a vector holds the same four
// bytes of all of them: VPDPBUSD multiplies it with four digits of a query, and
// sums stay apart by key, with nothing to add up across lanes in the end.
type integerScores struct {
	*gen
	e      integer
	digits int
	rows   int
	list   op.Mem // [tileKeys+integerBlock] addresses of keys
}

// integerBlock are the keys that are scored together.
const integerBlock = 16

// queryDigits are how many digits of queries there are kernels for.
var queryDigits = []int{3, allDigits}

// lowest is the lowest digit that it takes.
func (g integerScores) lowest() int { return allDigits - g.digits }

func (g integerScores) emit() {
	name := fmt.Sprintf("integerScores%d%sx%d%s", g.digits, g.e.name, g.rows, g.suffix)
	g.TEXT(name, "func(s *float32, stride int, q *byte, dim int, k *byte, off *int, keys int, scales *float32, most float32, "+aheadArgs+") (left int)",
		fmt.Sprintf("computes s[r·stride+j] = scales[j]·Σ_d q[r,d]·k_j[d] for %d rows of queries in fixed point, with %d digits of them. It ends before a block of keys with a scale above most, and yields how many keys are left.", g.rows, g.digits))
	g.Attributes(attr.Attribute(0)) // its frame is too large for NOSPLIT
	g.list = g.AllocLocal(8 * (tileKeys + integerBlock))
	ahead := g.gen.ahead(g.steps())
	flip := g.broadcast(0x80808080)
	var low reg.VecVirtual
	if g.e.bits == 4 {
		flip, low = g.broadcast(0x88888888), g.broadcast(0x0f0f0f0f)
	}
	key := g.GP64() // the place in the list of the block's first key
	s := g.param("s")
	words := g.window()
	if g.early() {
		first := g.GP64()
		g.listTile(key)
		g.XORL(first.As32(), first.As32())
		words.fill(key, first)
		g.JMP(op.LabelRef("block"))
	}

	g.Label("tile")
	g.listTile(key)
	g.Label("block")
	q := g.queryRows()
	acc := make([][][]reg.VecVirtual, g.rows)
	zero := g.zero()
	for r := range acc {
		acc[r] = make([][]reg.VecVirtual, g.sets())
		for i := range acc[r] {
			acc[r][i] = g.vecs(g.digits)
			for t, a := range acc[r][i] {
				if i == 0 {
					g.VPBROADCASTD(disp(q.at(r), 4*(g.lowest()+t)), a)
				} else {
					g.VMOVDQA64(zero, a)
				}
			}
		}
	}
	g.advance(q, digitsHead)
	at, dim := g.GP64(), g.param("dim")
	g.XORQ(at, at)
	touch := g.touch()
	g.Label("step")
	ahead.step()
	touch.step(key)
	var next []func()
	if g.early() {
		next = words.next(key, at, dim)
	} else {
		words.fill(key, at)
	}
	g.step(words, next, q, acc, flip, low)
	g.advance(q, 4*g.e.channels())
	g.ADDQ(imm(32), at)
	g.SUBQ(imm(g.e.channels()), dim)
	g.JG(op.LabelRef("step"))
	g.store(s, func(r int) (upper, lower reg.VecVirtual) { return g.numbers(acc[r]) })
	g.nextBlock(s, key)

	g.Label("all")
	ahead.rest()
	g.end()
}

// nextBlock moves on by a block of keys; to all, if there are no more.
func (g integerScores) nextBlock(s, key reg.GPVirtual) {
	g.ADDQ(imm(64), s)
	g.nextScales(integerBlock)
	g.SUBQ(imm(integerBlock), g.paramMem("keys"))
	g.JLE(op.LabelRef("all"))
	g.ADDQ(imm(8*integerBlock), key)
	end := g.GP64()
	g.LEAQ(g.list.Offset(8*tileKeys), end)
	g.CMPQ(key, end)
	g.JLT(op.LabelRef("block"))
	g.ADDQ(imm(8*tileKeys), g.paramMem("off"))
	g.JMP(op.LabelRef("tile"))
}

// end returns that no keys are left, or, from beyond on, how many are.
func (g integerScores) end() {
	g.MOVQ(imm(0), g.paramMem("keys"))
	g.Label("beyond")
	left := g.param("keys")
	g.VZEROUPPER()
	g.Store(left, g.ReturnIndex(0))
	g.RET()
}

// nextScales moves on by so many keys' scales, if there are any.
func (g *gen) nextScales(keys int) {
	label := fmt.Sprintf("scales%d", g.id())
	g.CMPQ(g.paramMem("scales"), imm(0))
	g.JEQ(op.LabelRef(label))
	g.ADDQ(imm(4*keys), g.paramMem("scales"))
	g.Label(label)
}

// touch goes through the next block's lines, eight a step, in the order of memory:
// the steps then find them in the first cache in whatever order they ask, and the
// hardware's prefetcher sees them in order.
type touch struct {
	integerScores
	key, line reg.GPVirtual // where in the list, from the block's first key on, and where in the row
}

func (g integerScores) touch() *touch {
	t := &touch{g, g.GP64(), g.GP64()}
	g.MOVQ(imm(16*8), t.key)
	g.XORQ(t.line, t.line)
	return t
}

func (t *touch) step(first reg.GPVirtual) {
	end, row, n, p := t.GP64(), t.param("dim"), t.GP64(), t.GP64()
	t.LEAQ(t.list.Offset(8*(tileKeys+integerBlock)), end)
	t.SUBQ(first, end)
	t.CMPQ(t.key, end)
	t.JGE(op.LabelRef("touched"))
	if t.e.bits == 4 {
		t.SHRQ(op.U8(1), row)
	}
	t.MOVQ(imm(8), n)
	t.Label("touch")
	t.MOVQ(op.Mem{Base: first, Index: t.key, Scale: 1}, p)
	t.PREFETCHT0(op.Mem{Base: p, Index: t.line, Scale: 1})
	t.ADDQ(imm(64), t.line)
	t.CMPQ(t.line, row)
	t.JLT(op.LabelRef("touchedLine"))
	t.XORQ(t.line, t.line)
	t.ADDQ(imm(8), t.key)
	t.Label("touchedLine")
	t.DECQ(n)
	t.JNZ(op.LabelRef("touch"))
	t.Label("touched")
}

// sets is how many sums there are of each digit, which words take in turn: enough
// to hide the latency of VPDPBUSD.
func (g integerScores) sets() int { return max(1, 2/g.rows) }

// steps is the number of blocks times the steps of each.
func (g integerScores) steps() reg.GPVirtual {
	n, each := g.param("keys"), g.param("dim")
	g.ADDQ(imm(15), n)
	g.SHRQ(op.U8(4), n)
	g.SHRQ(op.U8(log2(g.e.channels())), each)
	g.IMULQ(each, n)
	return n
}

// queryRows addresses the rows of queries.
func (g integerScores) queryRows() rows {
	floats := g.param("dim")
	g.ADDQ(imm(digitsHead/4), floats)
	return g.gen.rows(g.rows, g.param("q"), floats)
}

// pointers fills a list with the addresses of n rows, a tile's and some more, the first of those that are
// left; where there are fewer, the last one is repeated.
func (g *gen) pointers(list op.Mem, data string, n int) {
	off, keys, left := g.param("off"), g.param("keys"), g.GP64()
	base, last := g.vec(), g.vec()
	g.VPBROADCASTQ(g.param(data), base)
	g.VPBROADCASTQ(op.Mem{Base: off, Index: keys, Scale: 8, Disp: -8}, last)
	g.MOVQ(keys, left)
	ones := g.GP64()
	for i := range n / 8 {
		if i%8 == 0 {
			if i > 0 {
				none := g.GP64()
				g.XORQ(none, none)
				g.SUBQ(imm(tileKeys), left)
				g.CMOVQLT(none, left)
			}
			g.MOVQ(op.I32(-1), ones)
			g.fewer(left, ones)
		}
		mask, p := g.K(), g.vec()
		g.KMOVB(ones.As32(), mask)
		g.SHRQ(op.U8(8), ones)
		g.VMOVDQA64(last, p)
		g.VMOVDQU64(op.Mem{Base: off, Disp: 64 * i}, mask, p)
		g.VPADDQ(base, p, p)
		g.VMOVDQU64(p, list.Offset(64*i))
	}
}

// fewer leaves the lowest n bits of 64, or all where n is more.
func (g *gen) fewer(n, bits reg.GPVirtual) {
	some, most := g.GP64(), g.GP64()
	g.MOVQ(n, some)
	g.MOVQ(imm(tileKeys), most)
	g.CMPQ(some, most)
	g.CMOVQGT(most, some)
	g.BZHIQ(some, bits, bits)
}

// listTile lists the addresses of a tile's keys, and of the next tile's first block, which is touched, and may be
// loaded.
func (g integerScores) listTile(key reg.GPVirtual) {
	g.pointers(g.list, "k", tileKeys+integerBlock)
	g.LEAQ(g.list, key)
}

// early says that registers have room for the window to come beside the one under way. Its shuffles then wait for few
// of the products, not for all that were there before them: units are chosen in order, and two of four are both's.
func (g integerScores) early() bool { return g.rows*g.digits*g.sets() <= earlySums }

const earlySums = 12

// step multiplies a window's words, each by all rows' digits, and makes the next one meanwhile.
func (g integerScores) step(w *window, next []func(), q rows, acc [][][]reg.VecVirtual, flip, low reg.VecVirtual) {
	for i := range 4 {
		for half, lanes := range []uint8{0x88, 0xdd} {
			word, v := 4*half+i, g.vec()
			g.VSHUFI32X4(op.U8(lanes), w.z[1][i], w.z[0][i], v)
			if g.e.bits == 8 {
				g.VPXORD(flip, v, v)
				g.multiply(v, digitsQuad*word, q, acc)
				if next != nil {
					next[2*i+half]()
				}
				continue
			}
			upper := g.vec()
			g.VPSRLW(op.U8(4), v, upper)
			g.VPTERNLOGD(op.U8(xorAnd), low, flip, v)
			g.VPTERNLOGD(op.U8(xorAnd), low, flip, upper)
			g.multiply(v, 2*digitsQuad*word, q, acc)
			if next != nil {
				next[2*i+half]()
			}
			g.multiply(upper, 2*digitsQuad*word+digitsQuad, q, acc)
		}
	}
}

// xorAnd is the truth table of (a xor b) and c, andXor that of (a xor c) and b: bit
// 4a+2b+c is the value.
const (
	xorAnd = 1<<3 | 1<<5
	andXor = 1<<3 | 1<<6
)

// multiply adds the products of a vector of keys with all rows' digits at a place.
func (g integerScores) multiply(v reg.VecVirtual, place int, q rows, acc [][][]reg.VecVirtual) {
	for r := range acc {
		for t, a := range acc[r][place/digitsQuad%len(acc[r])] {
			g.VPDPBUSD_BCST(disp(q.at(r), place+4*(g.lowest()+t)), v, a)
		}
	}
}

// store takes a block's sums, each row's upper·2¹⁶ + lower, to scores, of the keys that are left, unless a scale is above most.
func (g integerScores) store(s reg.GPVirtual, sums func(r int) (upper, lower reg.VecVirtual)) {
	mask, over, ones, left := g.K(), g.K(), g.GP64(), g.param("keys")
	g.MOVQ(imm(0xffff), ones)
	g.fewer(left, ones)
	g.KMOVW(ones.As32(), mask)
	scales, at, size, most := g.vec(), g.param("scales"), g.vec(), g.vec()
	g.VMOVAPS(g.broadcast(float32bits(1)), scales)
	g.TESTQ(at, at)
	g.JZ(op.LabelRef("unscaled"))
	g.VMOVUPS_Z(op.Mem{Base: at}, mask, scales)
	g.VPANDD(g.broadcast(0x7fffffff), scales, size)
	g.VBROADCASTSS(g.paramMem("most"), most)
	g.VCMPPS(op.U8(greater), most, size, over)
	g.KORTESTW(over, over)
	g.JNZ(op.LabelRef("beyond"))
	g.Label("unscaled")

	q, by := g.queryRows(), g.param("stride")
	g.SHLQ(op.U8(2), by)
	row := g.GP64()
	g.MOVQ(s, row)
	shift := g.broadcast(float32bits(1 << 16))
	for r := range g.rows {
		upper, sum := sums(r)
		g.VCVTDQ2PS(upper, upper)
		g.VCVTDQ2PS(sum, sum)
		g.VFMADD231PS(upper, shift, sum)
		down := g.vec()
		g.VMULPS_BCST(disp(q.at(r), digitsUnit), sum, sum)
		g.VBROADCASTSS(disp(q.at(r), digitsDown), down)
		if g.lowest() > 0 {
			g.VADDPS(g.broadcast(float32bits(float32(8*g.lowest()))), down, down)
		}
		g.VSCALEFPS(down, sum, sum)
		g.VMULPS(scales, sum, sum)
		g.VMOVUPS(sum, mask, op.Mem{Base: row})
		if r < g.rows-1 {
			g.ADDQ(by, row)
		}
	}
}

// numbers joins the sums of digits, the lowest first and of one or more sets, as two numbers.
func (g integerScores) numbers(sets [][]reg.VecVirtual) (upper, lower reg.VecVirtual) {
	a := sets[0]
	for _, more := range sets[1:] {
		for t := range a {
			g.VPADDD(more[t], a[t], a[t])
		}
	}
	upper = a[2]
	if len(a) == allDigits {
		g.VPSLLD(op.U8(8), a[3], a[3])
		g.VPADDD(a[3], upper, upper)
	}
	g.VPSLLD(op.U8(8), a[1], a[1])
	g.VPADDD(a[1], a[0], a[0])
	return upper, a[0]
}
