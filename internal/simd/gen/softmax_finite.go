package main

import (
	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// abreast is how many vectors of weights are worked on step by step: as many as hide the
// latency of each, and as registers hold.
func (g softmax) abreast() int {
	if g.lanes == 16 {
		return 4
	}
	return 2
}

// finiteRow does a row whose maximum was old, and goes to done, where all of its scores
// are finite. That is so where their sum is, a sum that no exponential waits for.
func (g softmax) finiteRow(s reg.GPVirtual, old reg.VecVirtual, top, sum op.Mem, done string) {
	t, all, last := g.vec(), g.vec(), g.vecs(stripeKeys/g.lanes)
	g.VMOVAPS(old, t)
	g.VMAXPS(old, g.vecConst("lowest", -104), all) // the second operand's NaN stays, −Inf does not
	at := g.wholeStripes(s, func(m []op.Mem) {
		for i := 0; i < len(m); i += 4 {
			x := g.vecs(4)
			for k := range x {
				g.VMOVUPS(m[i+k], x[k])
			}
			g.VMAXPS(g.pairwise(x, g.VMAXPS), t, t)
			g.VADDPS(g.pairwise(x, g.VADDPS), all, all)
		}
	})
	for i, x := range last {
		g.loadScores(i, at, x)
		g.VMAXPS(x, t, t)
		g.addLive(i, x, all)
	}
	g.across(t, g.maxInto)
	g.VSUBPS(all, all, all)
	g.ifAny(g.isNaN(all), func() { g.JMP(op.LabelRef(done + "any")) })
	g.VMOVSS(t.AsX(), top)
	total, stripe, n := g.zero(), g.vec(), g.abreast()
	at = g.wholeStripes(s, func(m []op.Mem) {
		for i := 0; i < len(m); i += n {
			x := g.vecs(n)
			for k := range x {
				g.VMOVUPS(m[i+k], x[k])
			}
			g.weighFinite(x, t)
			for k := range x {
				g.addUp(i+k, x[k], stripe, total)
				g.VMOVUPS(x[k], m[i+k])
			}
		}
	})
	for i := 0; i < len(last); i += n {
		x := last[i : i+n]
		if g.lanes == 8 { // loaded again: registers are few
			for k := range x {
				x[k] = g.vec()
				g.loadScores(i+k, at, x[k])
			}
		}
		g.weighFinite(x, t)
		for k := range x {
			g.addUp(i+k, x[k], stripe, total)
			g.storeWeights(i+k, x[k], at)
		}
	}
	g.across(total, g.addInto)
	g.VMOVSS(total.AsX(), sum)
	g.JMP(op.LabelRef(done))
	g.Label(done + "any")
}

// weighFinite turns scores that are at most t into weights.
func (g softmax) weighFinite(x []reg.VecVirtual, t reg.VecVirtual) {
	for _, s := range x {
		g.VSUBPS(t, s, s)
	}
	g.exp(x...)
}

// pairwise folds vectors into a new one, which waits for few steps.
func (g softmax) pairwise(x []reg.VecVirtual, fold func(...op.Op)) reg.VecVirtual {
	for len(x) > 1 {
		y := g.vecs(len(x) / 2)
		for i := range y {
			fold(x[2*i], x[2*i+1], y[i])
		}
		x = y
	}
	return x[0]
}

// addLive adds vector i of the last stripe, as far as there are keys, to a sum.
func (g softmax) addLive(i int, x, sum reg.VecVirtual) {
	live := g.inRegister(g.live[i])
	if g.lanes == 16 {
		g.VADDPS(x, sum, live, sum)
		return
	}
	g.VANDPS(x, live, live)
	g.VADDPS(live, sum, sum)
}
