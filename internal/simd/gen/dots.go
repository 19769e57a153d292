package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// dots is accumulate for values in bfloat16, or such as are looked up in it, and weights that
// bfloat16 holds: words of two keys' values are interleaved, and one VDPBF16PS multiplies 16
// columns of both with a row's weights for them. It takes the upper word of a pair first and
// rounds twice, as two multiply-adds do, so that sums have the bits of accumulate (subnormal
// numbers, which it takes for zeros, aside). That is why the first of two keys has the upper words.
//
// Rows are a multiple of a line of 64 bytes: half of one in bfloat16.
type dots struct {
	accumulate
	codes *lookups // for types that are looked up
}

const (
	dotLine   = 64  // bytes of a value that are taken together
	dotElems  = 32  // of bfloat16 in a vector
	dotWeight = 128 // bytes of a tile's weights of a row
)

func dotsFile(g *gen) {
	for _, e := range g.elems() {
		for _, r := range g.blocks {
			(&dots{accumulate: accumulate{gen: g, e: e, rows: r}}).emit()
		}
	}
}

// columns are the elements of a line.
func (g *dots) columns() int { return 8 * dotLine / g.e.bits }

// sums are the vectors of a line's sums, of a row.
func (g *dots) sums() int { return g.columns() / g.lanes }

func (g *dots) emit() {
	g.begin()
	g.Attributes(attr.Attribute(0)) // the frame is too large for a function that does not split the stack
	room := g.AllocLocal(g.rows * dotWeight)
	at, o, left := g.AllocLocal(8), g.AllocLocal(8), g.AllocLocal(8)
	widths := g.widths[g.rows]
	ahead := g.gen.ahead(g.steps(widths[0]))
	g.walk = g.walkHeads()
	g.pack(room)
	if g.tables {
		g.codes = g.lookups(g.e)
		if g.rows <= 5 {
			g.codes.resident()
		}
	}
	g.MOVQ(g.param("dim"), left)
	g.MOVQ(g.param("o"), o)
	g.MOVQ(imm(0), at)
	g.eachWidth(widths, g.columns(), left, func(w int) {
		g.pass(w, room, o, at, ahead)
		g.ADDQ(imm(4*w*g.columns()), o)
		g.ADDQ(imm(w*dotLine), at)
	})
	g.walk.next()
	ahead.rest()
	g.VZEROUPPER()
	g.RET()
}

// steps is how often the inner loops turn: pairs of keys times passes.
func (g *dots) steps(w int) reg.GPVirtual {
	n, passes, one := g.param("keys"), g.param("dim"), g.GP64()
	g.INCQ(n)
	g.SHRQ(op.U8(1), n)
	g.MOVQ(imm(1), one)
	g.SHRQ(op.U8(log2(w*g.columns())), passes)
	g.CMOVQEQ(one, passes)
	g.IMULQ(passes, n)
	g.timesHeads(n)
	return n
}

// pack writes the stretch's weights, which bfloat16 holds, as such, the last of 64 keys
// first: so the first of two keys has the upper half of what is loaded of both, wherever
// they begin. Keys that there are none of weigh 0.
func (g *dots) pack(room op.Mem) {
	bits, ones, order := g.GP64(), g.GP64(), g.vec()
	g.MOVQ(op.I32(-1), ones)
	g.BZHIQ(g.param("keys"), ones, bits)
	var live [tileKeys / 16]reg.OpmaskVirtual
	for i := range live {
		live[i] = g.K()
		g.KMOVW(bits.As32(), live[i])
		g.SHRQ(op.U8(16), bits)
	}
	places := make([]uint32, 16) // the upper words of 32 numbers, backwards
	for i := range places {
		first := uint32(2*dotElems - 1 - 4*i)
		places[i] = first | (first-2)<<16
	}
	g.VMOVDQU32(g.table("upperWords", places...), order)
	p, by, packed := g.param("p"), g.param("stride"), g.GP64()
	g.SHLQ(op.U8(2), by)
	g.LEAQ(room, packed)
	for r := range g.rows {
		for half := range 2 {
			a, b := g.vec(), g.vec()
			g.VMOVUPS_Z(op.Mem{Base: p, Disp: 128 * half}, live[2*half], a)
			g.VMOVUPS_Z(op.Mem{Base: p, Disp: 128*half + 64}, live[2*half+1], b)
			g.VPERMT2W(b, order, a)
			g.VMOVDQU32(a, op.Mem{Base: packed, Disp: dotWeight*r + 64*(1-half)})
		}
		if r < g.rows-1 {
			g.ADDQ(by, p)
		}
	}
}

// pass sums w lines at byte `at` of every value into vectors of each row at o, touching lines
// ahead at every second key.
func (g *dots) pass(w int, room, o, at op.Mem, ahead *ahead) {
	label := fmt.Sprintf("keys%d", g.id())
	n := w * g.sums() // vectors of a row
	acc := g.vecs(g.rows * n)
	zero := g.zero()
	for _, a := range acc {
		g.VMOVAPS(zero, a)
	}
	g.resume(acc, n, o, nil)
	off, base, weights := g.param("off"), g.param("v"), g.GP64()
	g.LEAQ(room.Offset(2*(tileKeys-2)), weights)
	g.ADDQ(at, base)
	j := g.GP64()
	g.XORQ(j, j)
	walk := g.offsets()
	g.Label(label)
	ahead.step()
	first, second := g.GP64(), g.GP64()
	g.LEAQ(op.Mem{Base: base, Index: walk.rel, Scale: 1}, first)
	g.INCQ(j)
	g.CMPQ(j, g.paramMem("keys"))
	g.JGE(op.LabelRef(label + "odd")) // a last key is its own partner, without weight
	walk.next(off, j)
	g.Label(label + "odd")
	g.LEAQ(op.Mem{Base: base, Index: walk.rel, Scale: 1}, second)
	for i := 0; i < w; i += 2 {
		lines := min(2, w-i)
		a, b := g.vecs(lines), g.vecs(lines)
		for v := range lines {
			g.VMOVDQU32(op.Mem{Base: first, Disp: dotLine * (i + v)}, a[v])
		}
		for v := range lines {
			g.VMOVDQU32(op.Mem{Base: second, Disp: dotLine * (i + v)}, b[v])
		}
		for v := range lines {
			pairs := g.interleave(a[v], b[v])
			for r := range g.rows {
				for k, x := range pairs {
					g.dotBroadcast(op.Mem{Base: weights, Disp: dotWeight * r}, x, acc[r*n+g.sums()*(i+v)+k])
				}
			}
		}
	}
	g.SUBQ(imm(4), weights)
	g.INCQ(j)
	g.CMPQ(j, g.paramMem("keys"))
	g.JGE(op.LabelRef(label + "done"))
	walk.next(off, j)
	g.JMP(op.LabelRef(label))
	g.Label(label + "done")
	aside := g.putAside(acc, n, o, nil)
	g.inOrder(acc)
	g.update(acc, n, o, nil)
	g.Label(aside)
}

// interleave makes pairs of a line of a first key and of a second one: of each 128 bits, the
// lower half of what they hold of columns first.
func (g *dots) interleave(a, b reg.VecVirtual) []reg.VecVirtual {
	lower, upper := g.vec(), g.vec()
	if !g.tables {
		g.VPUNPCKLWD(a, b, lower)
		g.VPUNPCKHWD(a, b, upper)
		return []reg.VecVirtual{lower, upper}
	}
	g.VPUNPCKLBW(a, b, lower)
	g.VPUNPCKHBW(a, b, upper)
	pairs := g.vecs(4)
	g.codes.numbers(lower, pairs[0], pairs[1])
	g.codes.numbers(upper, pairs[2], pairs[3])
	return pairs
}

// inOrder makes sums, whose columns interleave took four at a time in turn, vectors of columns
// in order.
func (g *dots) inOrder(acc []reg.VecVirtual) {
	if g.tables {
		g.transposed(acc)
		return
	}
	var order [2]reg.VecVirtual
	for half := range order {
		order[half] = g.vec()
		var places []uint32
		for i := range uint32(8) {
			place := uint32(4*half) + i/4*2 + i%2 + i/2%2*8
			places = append(places, place, 0)
		}
		g.VMOVDQU64(g.table(fmt.Sprintf("unpacked%d", half), places...), order[half])
	}
	for i := 0; i < len(acc); i += 2 {
		first := g.vec()
		g.VMOVDQA64(acc[i], first)
		g.VPERMT2PD(acc[i+1], order[0], first)
		second := g.vec()
		g.VMOVDQA64(acc[i], second)
		g.VPERMT2PD(acc[i+1], order[1], second)
		acc[i], acc[i+1] = first, second
	}
}

// transposed is inOrder for four vectors at a time, each of which holds a quarter of what each
// 16 columns are.
func (g *dots) transposed(acc []reg.VecVirtual) {
	for i := 0; i < len(acc); i += 4 {
		a, half := acc[i:i+4], g.vecs(4)
		for k := range 2 {
			g.VSHUFF32X4(op.U8(0x44), a[2*k+1], a[2*k], half[2*k])
			g.VSHUFF32X4(op.U8(0xee), a[2*k+1], a[2*k], half[2*k+1])
		}
		for k := range 2 {
			g.VSHUFF32X4(op.U8(0x88), half[2+k], half[k], a[2*k])
			g.VSHUFF32X4(op.U8(0xdd), half[2+k], half[k], a[2*k+1])
		}
	}
}
