package main

import (
	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// rowStep is simd.RowStep: what a turn of the loop takes of a row.
const rowStep = 32

// rowsFile emits the kernels
//
//	y[r] = Σ_c row_r[c]·x[c]
//
// for rows that follow one another in memory. They read one row after the other, from front to back, in vectors of
// 256 bits and with nothing fetched ahead: the hardware's prefetcher leads such a loop best (docs/calibration.md).
func rowsFile(g *gen) {
	for _, e := range elems[:3] {
		(&rowsKernel{gen: g, loader: g.loader(e), e: e}).emit()
	}
}

type rowsKernel struct {
	*gen
	loader *loader
	e      elem
}

func (g *rowsKernel) emit() {
	g.TEXT("rows"+g.e.name+g.suffix, "func(y *float32, rows int, row *byte, x *float32, steps int)",
		"computes y[r] = Σ_c row_r[c]·x[c] over rows, at least 1, of so many times 32 elements, at least 1.")
	y, left, p := g.param("y"), g.param("rows"), g.param("row")
	x, steps := g.GP64(), g.GP64()
	sums := g.vecs(rowStep / g.lanes)
	zero := g.zero()
	g.Label("row")
	g.MOVQ(g.paramMem("x"), x)
	g.MOVQ(g.paramMem("steps"), steps)
	for _, s := range sums {
		g.VMOVAPS(zero, s)
	}
	g.Label("step")
	for i, s := range sums {
		v := g.vec()
		g.loader.load(op.Mem{Base: p, Disp: i * g.vecBytes(g.e)}, v)
		g.VFMADD231PS(op.Mem{Base: x, Disp: 4 * i * g.lanes}, v, s)
	}
	g.ADDQ(imm(rowStep*g.e.bits/8), p)
	g.ADDQ(imm(4*rowStep), x)
	g.DECQ(steps)
	g.JNZ(op.LabelRef("step"))
	g.VMOVSS(g.total(sums), op.Mem{Base: y})
	g.ADDQ(imm(4), y)
	g.DECQ(left)
	g.JNZ(op.LabelRef("row"))
	g.VZEROUPPER()
	g.RET()
}

// total is the sum of all lanes of vectors of 256 bits.
func (g *gen) total(v []reg.VecVirtual) reg.VecVirtual {
	for n := len(v); n > 1; n /= 2 {
		for i := range n / 2 {
			g.VADDPS(v[i+n/2], v[i], v[i])
		}
	}
	x := g.XMM()
	g.VEXTRACTF128(op.U8(1), v[0], x)
	g.VADDPS(v[0].AsX(), x, x)
	g.VHADDPS(x, x, x)
	g.VHADDPS(x, x, x)
	return x
}
