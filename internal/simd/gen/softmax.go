package main

import (
	"fmt"
	"math"

	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// stripeKeys are the keys of a row that are taken at once.
const stripeKeys = 64

// Predicates of VCMPPS.
const (
	equal     = 0
	unordered = 3
	notEqual  = 4 // or unordered
	greater   = 30
)

func softmaxFile(g *gen) {
	name := "softmax" + g.suffix
	g.TEXT(name, "func(s *float32, stride, rows, keys int, m, l, alpha *float32) uint32",
		"takes rows of scores into their running states: see Softmax. It returns 0 where no score is −Inf.")
	softmax{gen: g}.emit()
}

// softmax is, for every row,
//
//	m' = max(m, max_j s_j)    p_j = exp(s_j − m')    α = exp(m − m')    l' = l·α + Σ_j p_j
//
// A chunk of as many rows as a vector has lanes is done row by row, its maxima and
// sums put aside in the frame; then m, α and l of the whole chunk are vectors. A row
// is whole stripes of keys, and a last one that may be short.
type softmax struct {
	*gen
	negInf reg.VecVirtual
	live   []op.Op // which lanes of the last stripe's vectors are keys: opmasks, or vectors in the frame
	whole  op.Mem  // how many stripes come before it
	hidden reg.GPVirtual
}

func (g softmax) emit() {
	g.negInf = g.broadcast(0xff800000)
	g.hidden = g.GP32()
	g.XORL(g.hidden, g.hidden)
	tops, sums := g.AllocLocal(64), g.AllocLocal(64)
	g.stripes()
	s, left := g.param("s"), g.param("rows")
	m, l, alpha := g.param("m"), g.param("l"), g.param("alpha")
	by := g.param("stride")
	g.SHLQ(op.U8(2), by)

	g.Label("chunk")
	n, i := g.GP64(), g.GP64()
	g.MOVQ(imm(g.lanes), n)
	g.CMPQ(left, n)
	g.CMOVQLT(left, n)
	g.XORQ(i, i)
	g.Label("row")
	g.row(s, op.Mem{Base: m, Index: i, Scale: 4}, tops.Idx(i, 4), sums.Idx(i, 4))
	g.ADDQ(by, s)
	g.INCQ(i)
	g.CMPQ(i, n)
	g.JLT(op.LabelRef("row"))
	g.states(n, m, l, alpha, tops, sums)
	for _, p := range []reg.GPVirtual{m, l, alpha} {
		g.ADDQ(imm(4*g.lanes), p)
	}
	g.SUBQ(imm(g.lanes), left)
	g.JG(op.LabelRef("chunk"))

	g.VZEROUPPER()
	g.Store(g.hidden, g.ReturnIndex(0))
	g.RET()
}

// row turns a row of scores into weights, and stores its new maximum and its sum. Rows
// whose scores are all finite, as nearly all are, are searched for nothing else.
func (g softmax) row(s reg.GPVirtual, m, top, sum op.Mem) {
	done := fmt.Sprintf("row%d", g.id())
	old := g.vec()
	g.VBROADCASTSS(m, old)
	g.finiteRow(s, old, top, sum, done)
	g.anyRow(s, old, top, sum)
	g.Label(done)
}

// anyRow does a row that may hold NaN and infinities. With 32 registers the last
// stripe's scores stay in them; others are loaded twice.
func (g softmax) anyRow(s reg.GPVirtual, old reg.VecVirtual, top, sum op.Mem) {
	last := make([]reg.VecVirtual, stripeKeys/g.lanes)
	t := g.vec()
	g.VMOVAPS(old, t)
	nan := g.isNaN(old)
	at := g.wholeStripes(s, func(m []op.Mem) {
		for i := range m {
			x := g.vec()
			g.VMOVUPS(m[i], x)
			g.VMAXPS(x, t, t)
			g.orMask(g.isNaN(x), nan)
		}
	})
	for i := range last {
		last[i] = g.vec()
		g.loadScores(i, at, last[i])
		g.VMAXPS(last[i], t, t)
		g.orMask(g.isNaN(last[i]), nan)
	}
	g.across(t, g.maxInto)
	// VMAXPS loses a NaN in its first operand: let it win.
	g.ifAny(nan, func() { g.VMOVAPS(g.broadcast(0x7fc00000), t) })
	g.VMOVSS(t.AsX(), top)
	base := g.base(t)
	total, stripe := g.zero(), g.vec()
	at = g.wholeStripes(s, func(m []op.Mem) {
		for i := range m {
			x := g.vec()
			g.VMOVUPS(m[i], x)
			g.weigh(x, base, nil)
			g.addUp(i, x, stripe, total)
			g.VMOVUPS(x, m[i])
		}
	})
	for i, x := range last {
		if g.lanes == 8 {
			x = g.vec()
			g.loadScores(i, at, x)
		}
		g.weigh(x, base, g.live[i])
		g.addUp(i, x, stripe, total)
		g.storeWeights(i, x, at)
	}
	g.across(total, g.addInto)
	g.VMOVSS(total.AsX(), sum)
}

// wholeStripes does every whole stripe of the row at s, whose vectors it tells, and
// returns where the last stripe begins.
func (g softmax) wholeStripes(s reg.GPVirtual, do func(m []op.Mem)) reg.GPVirtual {
	label := fmt.Sprintf("stripe%d", g.id())
	at, left := g.GP64(), g.GP64()
	g.MOVQ(s, at)
	g.MOVQ(g.whole, left)
	g.TESTQ(left, left)
	g.JZ(op.LabelRef(label + "done"))
	g.Label(label)
	m := make([]op.Mem, stripeKeys/g.lanes)
	for i := range m {
		m[i] = op.Mem{Base: at, Disp: 4 * g.lanes * i}
	}
	do(m)
	g.ADDQ(imm(4*stripeKeys), at)
	g.DECQ(left)
	g.JNZ(op.LabelRef(label))
	g.Label(label + "done")
	return at
}

// addUp adds vector i of a stripe to the stripe's sum, and with the last one that to the
// sum of all: few weights are added to a large sum so.
func (g softmax) addUp(i int, x, stripe, total reg.VecVirtual) {
	if i == 0 {
		g.VMOVAPS(x, stripe)
	} else {
		g.VADDPS(x, stripe, stripe)
	}
	if i == stripeKeys/g.lanes-1 {
		g.VADDPS(stripe, total, total)
	}
}

// weigh turns scores into weights. Lanes that are not live, where not all are, hold −Inf.
func (g softmax) weigh(x, base reg.VecVirtual, live op.Op) {
	isHidden := g.isNegInf(x, live)
	g.VSUBPS(base, x, x)
	g.exp(x)
	g.markHidden(x, isHidden)
}

func (g softmax) maxInto(a, b reg.VecVirtual) { g.VMAXPS(a, b, b) }
func (g softmax) addInto(a, b reg.VecVirtual) { g.VADDPS(a, b, b) }

// across folds v so that every lane holds the result over all lanes.
func (g softmax) across(v reg.VecVirtual, fold func(a, b reg.VecVirtual)) {
	t := g.vec()
	if g.lanes == 16 {
		g.VSHUFF32X4(op.U8(0x4e), v, v, t)
		fold(t, v)
		t = g.vec()
		g.VSHUFF32X4(op.U8(0xb1), v, v, t)
	} else {
		g.VPERM2F128(op.U8(0x01), v, v, t)
	}
	fold(t, v)
	for _, order := range []uint8{0x4e, 0xb1} {
		t = g.vec()
		g.VPERMILPS(op.U8(order), v, t)
		fold(t, v)
	}
}

// exp replaces each x ≤ 0 by e^x: with n = round(x·log2 e) and r = x − n·ln 2,
// |r| ≤ ln(2)/2, it is 2^n·(1 + r + r²·P(r)), P of degree 4. Below −104 it is 0.
// NaN stays NaN. Several go step by step, so that none waits for its own.
func (g softmax) exp(x ...reg.VecVirtual) {
	n, p := g.vecs(len(x)), g.vecs(len(x))
	step := func(name string, c float64, do func(i int, c reg.VecVirtual)) {
		v := g.vecConst(name, c)
		for i := range x {
			do(i, v)
		}
	}
	step("lowest", -104, func(i int, c reg.VecVirtual) { g.VMAXPS(x[i], c, x[i]) }) // the second operand's NaN stays
	step("log2e", math.Log2E, func(i int, c reg.VecVirtual) {
		g.VMULPS(c, x[i], n[i])
		if g.lanes == 16 {
			g.VRNDSCALEPS(op.U8(0), n[i], n[i])
		} else {
			g.VROUNDPS(op.U8(0), n[i], n[i])
		}
	})
	const ln2hi = 0.693359375
	step("ln2hi", ln2hi, func(i int, c reg.VecVirtual) { g.VFNMADD231PS(c, n[i], x[i]) })
	step("ln2lo", math.Ln2-ln2hi, func(i int, c reg.VecVirtual) { g.VFNMADD231PS(c, n[i], x[i]) })
	// Least largest relative error on the interval, of coefficients in float32: 2⁻²⁸.
	coefficients := []float64{1.382094575e-3, 8.368683979e-3, 4.166826606e-2, 1.666652113e-1, 4.999999404e-1, 1, 1}
	step("c0", coefficients[0], func(i int, c reg.VecVirtual) { g.VMOVAPS(c, p[i]) })
	for k, c := range coefficients[1:] {
		step(fmt.Sprintf("c%d", k+1), c, func(i int, c reg.VecVirtual) { g.VFMADD213PS(c, x[i], p[i]) })
	}
	for i := range x {
		if g.lanes == 16 {
			g.VSCALEFPS(n[i], p[i], x[i])
		} else {
			g.scaleBy2(p[i], n[i], x[i])
		}
	}
}

// scaleBy2 is x = p·2^n in two steps, as 2^n alone may be below the normal numbers.
func (g softmax) scaleBy2(p, n, x reg.VecVirtual) {
	i, half := g.vec(), g.vec()
	bias := g.constMem("bias", float64(math.Float32frombits(127)))
	g.VCVTPS2DQ(n, i)
	g.VPSRAD(op.U8(1), i, half)
	g.VPSUBD(half, i, i)
	for _, k := range []reg.VecVirtual{half, i} {
		g.VPADDD(bias, k, k)
		g.VPSLLD(op.U8(23), k, k)
		g.VMULPS(k, p, p)
	}
	g.VMOVAPS(p, x)
}

// constMem is a vector of copies of x in memory.
func (g softmax) constMem(name string, x float64) op.Mem {
	return g.table(name, repeat(float32bits(float32(x)), g.lanes)...)
}

// vecConst is constMem in a register.
func (g softmax) vecConst(name string, x float64) reg.VecVirtual {
	v := g.vec()
	g.VMOVUPS(g.constMem(name, x), v)
	return v
}

// states are m', α and l' of a chunk of n rows, from its maxima and sums:
// α is 0 where m was −Inf, and at least 2⁻¹²⁶ elsewhere.
func (g softmax) states(n, m, l, alpha reg.GPVirtual, tops, sums op.Mem) {
	at := func(p reg.GPVirtual) op.Mem { return op.Mem{Base: p} }
	lanes := g.firstLanes(n)
	top, old, run, sum := g.vec(), g.vec(), g.vec(), g.vec()
	g.VMOVUPS(tops, top)
	g.VMOVUPS(sums, sum)
	g.loadLanes(at(m), lanes, old)
	g.loadLanes(at(l), lanes, run)
	base := g.base(top)
	started := g.notNegInf(old)
	a := g.vec()
	g.VSUBPS(base, old, a)
	g.exp(a)
	g.VMAXPS(a, g.vecConst("minAlpha", 0x1p-126), a)
	g.keepLanes(a, started)
	g.VFMADD213PS(sum, a, run)
	g.storeLanes(top, lanes, at(m))
	g.storeLanes(run, lanes, at(l))
	g.storeLanes(a, lanes, at(alpha))
}
