package main

import (
	"fmt"

	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// averageWidths are how many float64 vectors of dst are summed together.
var averageWidths = []int{4, 1}

// averageFile emits the weighted average that ends a merge:
//
//	dst[i] = Σ_b weight[b]·o_b[i] / l
//
// in float64, product and sum rounded each, in the order of b, as plain Go has it.
func averageFile(g *gen) {
	g.TEXT("average"+g.suffix, "func(dst *float32, n int, weight *float64, o *byte, states int, l float64)",
		"computes dst[i] = Σ_b weight[b]·o_b[i] / l, i < n, a multiple of half a vector's elements. o is a list of slices.")
	half := g.lanes / 2
	dst, left, at := g.param("dst"), g.param("n"), g.GP64()
	g.XORQ(at, at)
	l := g.vec()
	g.VBROADCASTSD(g.paramMem("l"), l)
	g.eachWidth(averageWidths, half, left, func(w int) {
		sums := g.averageSums(w, at)
		for i, sum := range sums {
			g.VDIVPD(l, sum, sum)
			g.storeNarrow(sum, op.Mem{Base: dst, Index: at, Scale: 4, Disp: 4 * half * i})
		}
		g.ADDQ(imm(w*half), at)
	})
	g.VZEROUPPER()
	g.RET()
}

// averageSums sums w vectors of all states from element at on.
func (g *gen) averageSums(w int, at reg.GPVirtual) []reg.VecVirtual {
	label := fmt.Sprintf("width%d", w)
	half := g.lanes / 2
	sums, zero := g.vecs(w), g.zero()
	for _, sum := range sums {
		g.VMOVAPS(zero, sum)
	}
	weight, o, states, row := g.param("weight"), g.param("o"), g.param("states"), g.GP64()
	g.Label(label + "state")
	by := g.vec()
	g.VBROADCASTSD(op.Mem{Base: weight}, by)
	g.MOVQ(op.Mem{Base: o}, row)
	for i, sum := range sums {
		x := g.vec()
		g.VCVTPS2PD(op.Mem{Base: row, Index: at, Scale: 4, Disp: 4 * half * i}, x)
		g.VMULPD(by, x, x)
		g.VADDPD(x, sum, sum)
	}
	g.ADDQ(imm(8), weight)
	g.ADDQ(imm(sliceBytes), o)
	g.DECQ(states)
	g.JNZ(op.LabelRef(label + "state"))
	return sums
}

// sliceBytes is the size of a slice: its pointer comes first.
const sliceBytes = 24

// storeNarrow stores a vector of float64 as float32.
func (g *gen) storeNarrow(x reg.VecVirtual, m op.Mem) {
	if g.lanes == 16 {
		y := g.YMM()
		g.VCVTPD2PS(x, y)
		g.VMOVUPS(y, m)
		return
	}
	y := g.XMM()
	g.VCVTPD2PSY(x, y)
	g.VMOVUPS(y, m)
}
