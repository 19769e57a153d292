package main

import (
	"fmt"

	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// panelRows is the most rows of x that a kernel takes: with as many vectors of a panel as its strips are
// wide, all but a few registers hold sums.
const panelRows = 6

// stripVectors is how wide a panel's strips are, in vectors: 24 sums of 32 registers, 12 of 16.
func (g *gen) stripVectors() int {
	if g.lanes == 16 {
		return 4
	}
	return 2
}

// panelFile emits the products of many rows: see panel.go of package simd for the form of a panel.
func panelFile(g *gen) {
	for _, e := range elems[:3] { // F32, F16, BF16
		turned{gen: g, e: e}.emit()
	}
	for n := 1; n <= panelRows; n++ {
		panel{gen: g, rows: n}.emit()
	}
}

// panel is the kernel
//
//	y[i,j] = y[i,j]·α[i] + Σ_d x[i,d]·w[d,j]
//
// for a fixed number of rows i and the columns j of a strip. Each element of x is loaded once for all of them,
// each of w for all rows, and sums stay in registers until the end.
type panel struct {
	*gen
	rows int
}

// panelUnroll is how many elements of x a turn takes.
const panelUnroll = 4

func (g panel) emit() {
	g.TEXT(fmt.Sprintf("panel%d%s", g.rows, g.suffix), "func(y *float32, stride int, alpha *float32, x *float32, xStride, dim int, w *float32)",
		fmt.Sprintf("computes y[i·stride+j] = y[i·stride+j]·alpha[i] + Σ_d x[i·xStride+d]·w[d·%d+j] for %d rows.", g.stripVectors()*g.lanes, g.rows))
	zero := g.zero()
	acc := g.vecs(g.rows * g.stripVectors())
	for _, a := range acc {
		g.VMOVAPS(zero, a)
	}
	x, w, left := g.gen.rows(g.rows, g.param("x"), g.param("xStride")), g.param("w"), g.param("dim")
	g.SUBQ(imm(panelUnroll), left)
	g.JL(op.LabelRef("rest"))
	g.Label("some")
	g.elements(panelUnroll, x, w, acc)
	g.SUBQ(imm(panelUnroll), left)
	g.JGE(op.LabelRef("some"))
	g.Label("rest")
	g.ADDQ(imm(panelUnroll), left)
	g.JZ(op.LabelRef("store"))
	g.Label("one")
	g.elements(1, x, w, acc)
	g.DECQ(left)
	g.JNZ(op.LabelRef("one"))
	g.Label("store")
	g.store(acc)
	g.VZEROUPPER()
	g.RET()
}

// elements takes the next n elements of each row of x.
func (g panel) elements(n int, x rows, w reg.GPVirtual, acc []reg.VecVirtual) {
	width := g.stripVectors()
	strip := g.vecs(width)
	for d := range n {
		for c, v := range strip {
			g.VMOVUPS(op.Mem{Base: w, Disp: 4 * g.lanes * (d*width + c)}, v)
		}
		for r := range g.rows {
			b := g.vec()
			g.VBROADCASTSS(disp(x.at(r), 4*d), b)
			for c, v := range strip {
				g.VFMADD231PS(v, b, acc[r*width+c])
			}
		}
	}
	g.advance(x, 4*n)
	g.ADDQ(imm(4*g.lanes*width*n), w)
}

// store adds the sums to what is there of y, times alpha; where that is 0, y is not read.
func (g panel) store(acc []reg.VecVirtual) {
	width := g.stripVectors()
	y, by, alpha := g.param("y"), g.param("stride"), g.param("alpha")
	g.SHLQ(op.U8(2), by)
	nothing := g.XMM()
	g.VXORPS(nothing, nothing, nothing)
	for r := range g.rows {
		sums, label := acc[r*width:][:width], fmt.Sprintf("write%d", r)
		a := g.vec()
		g.VBROADCASTSS(op.Mem{Base: alpha, Disp: 4 * r}, a)
		g.VUCOMISS(a.AsX(), nothing)
		g.JE(op.LabelRef(label))
		for c, s := range sums {
			g.VFMADD231PS(op.Mem{Base: y, Disp: 4 * g.lanes * c}, a, s)
		}
		g.Label(label)
		for c, s := range sums {
			g.VMOVUPS(s, op.Mem{Base: y, Disp: 4 * g.lanes * c})
		}
		g.ADDQ(by, y)
	}
}

// turned is the kernel
//
//	w[d,j] = row_j[d]
//
// for as many rows as a vector has lanes, and so many times as many elements.
type turned struct {
	*gen
	e elem
}

func (g turned) emit() {
	g.TEXT(fmt.Sprintf("turn%s%s", g.e.name, g.suffix), "func(w *float32, step int, data *byte, off *int, chunks int)",
		fmt.Sprintf("writes w[d·step+j] = row_j[d] for j < %d and d < %[1]d·chunks, at least 1 of these.", g.lanes))
	load := g.loader(g.e)
	w, by, data, off, left := g.param("w"), g.param("step"), g.param("data"), g.param("off"), g.param("chunks")
	g.SHLQ(op.U8(2), by)
	g.Label("chunk")
	v := g.vecs(g.lanes)
	for j, x := range v {
		at := g.GP64()
		g.MOVQ(op.Mem{Base: off, Disp: 8 * j}, at)
		load.load(op.Mem{Base: data, Index: at, Scale: 1}, x)
	}
	for _, x := range g.transpose(v) {
		g.VMOVUPS(x, op.Mem{Base: w})
		g.ADDQ(by, w)
	}
	g.ADDQ(imm(g.vecBytes(g.e)), data)
	g.DECQ(left)
	g.JNZ(op.LabelRef("chunk"))
	g.VZEROUPPER()
	g.RET()
}

// transpose turns a square of vectors: first within quarters of four lanes, then quarters among each other.
func (g *gen) transpose(v []reg.VecVirtual) []reg.VecVirtual {
	out := make([]reg.VecVirtual, len(v))
	for i := 0; i < len(v); i += 4 {
		g.transposeQuarters(out[i:i+4], v[i:i+4])
	}
	// out[4i+j] has element 4q+j of rows 4i to 4i+3 in quarter q.
	for j := range 4 {
		if g.lanes == 16 {
			a, b, c, d := out[j], out[4+j], out[8+j], out[12+j]
			ab02, ab13, cd02, cd13 := g.vec(), g.vec(), g.vec(), g.vec()
			g.VSHUFF32X4(op.U8(0x88), b, a, ab02)
			g.VSHUFF32X4(op.U8(0xdd), b, a, ab13)
			g.VSHUFF32X4(op.U8(0x88), d, c, cd02)
			g.VSHUFF32X4(op.U8(0xdd), d, c, cd13)
			g.VSHUFF32X4(op.U8(0x88), cd02, ab02, a)
			g.VSHUFF32X4(op.U8(0x88), cd13, ab13, b)
			g.VSHUFF32X4(op.U8(0xdd), cd02, ab02, c)
			g.VSHUFF32X4(op.U8(0xdd), cd13, ab13, d)
			continue
		}
		a, b, low := out[j], out[4+j], g.vec()
		g.VPERM2F128(op.U8(0x20), b, a, low)
		g.VPERM2F128(op.U8(0x31), b, a, b)
		out[j] = low
	}
	return out
}

// transposeQuarters turns each four lanes of four vectors.
func (g *gen) transposeQuarters(out, v []reg.VecVirtual) {
	low01, high01, low23, high23 := g.vec(), g.vec(), g.vec(), g.vec()
	g.VUNPCKLPS(v[1], v[0], low01)
	g.VUNPCKHPS(v[1], v[0], high01)
	g.VUNPCKLPS(v[3], v[2], low23)
	g.VUNPCKHPS(v[3], v[2], high23)
	for i := range out {
		out[i] = g.vec()
	}
	g.VUNPCKLPD(low23, low01, out[0])
	g.VUNPCKHPD(low23, low01, out[1])
	g.VUNPCKLPD(high23, high01, out[2])
	g.VUNPCKHPD(high23, high01, out[3])
}
