package main

import (
	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// roundFile emits the rounding of weights to bfloat16: with c = (2¹⁶ + 1)·p, the 8 digits of
// c − (c − p) are p's, rounded to nearest. A NaN stays one, and −0 what it is.
func roundFile(g *gen) {
	g.TEXT("roundWeights"+g.suffix, "func(p *float32, stride, rows, keys int, l, alpha *float32)",
		"rounds p[r·stride+j] to bfloat16 and makes l[r] = l[r]·alpha[r] + Σ_j p[r·stride+j], j < keys, r < rows.")
	p, l, alpha, rows, by := g.param("p"), g.param("l"), g.param("alpha"), g.param("rows"), g.param("stride")
	g.SHLQ(op.U8(2), by)
	shift, zero := g.broadcast(float32bits(1<<16+1)), g.zero()
	rest := g.param("keys")
	g.ANDQ(imm(g.lanes-1), rest)
	mask, _ := g.tailMask(rest)
	round := func(x reg.VecVirtual) {
		c, d := g.vec(), g.vec()
		g.VMULPS(shift, x, c)
		g.VSUBPS(x, c, d)
		g.VSUBPS(d, c, x)
	}

	g.Label("row")
	at, left, sum, x := g.GP64(), g.param("keys"), g.vec(), g.vec()
	g.MOVQ(p, at)
	g.VMOVAPS(zero, sum)
	g.Label("vector")
	g.SUBQ(imm(g.lanes), left)
	g.JL(op.LabelRef("rest"))
	g.VMOVUPS(op.Mem{Base: at}, x)
	round(x)
	g.VMOVUPS(x, op.Mem{Base: at})
	g.VADDPS(x, sum, sum)
	g.ADDQ(imm(4*g.lanes), at)
	g.JMP(op.LabelRef("vector"))
	g.Label("rest")
	g.TESTQ(rest, rest)
	g.JZ(op.LabelRef("summed"))
	g.VMOVUPS_Z(op.Mem{Base: at}, mask, x)
	round(x)
	g.VMOVUPS(x, mask, op.Mem{Base: at})
	g.VADDPS(x, sum, sum)
	g.Label("summed")
	total, old := g.lanesSum(sum), g.XMM()
	g.VMOVSS(op.Mem{Base: l}, old)
	g.VFMADD132SS(op.Mem{Base: alpha}, total, old)
	g.VMOVSS(old, op.Mem{Base: l})
	g.ADDQ(by, p)
	g.ADDQ(imm(4), l)
	g.ADDQ(imm(4), alpha)
	g.DECQ(rows)
	g.JNZ(op.LabelRef("row"))
	g.VZEROUPPER()
	g.RET()
}

// lanesSum is the sum of a vector's 16 lanes.
func (g *gen) lanesSum(v reg.VecVirtual) reg.VecVirtual {
	upper, y := g.YMM(), v.AsY()
	g.VEXTRACTF64X4(op.U8(1), v, upper)
	g.VADDPS(upper, y, y)
	x, half := v.AsX(), g.XMM()
	g.VEXTRACTF128(op.U8(1), y, half)
	g.VADDPS(half, x, x)
	g.VMOVHLPS(x, x, half)
	g.VADDPS(half, x, x)
	g.VMOVSHDUP(x, half)
	g.VADDSS(half, x, x)
	sum := g.XMM()
	g.VMOVAPS(x, sum)
	return sum
}
