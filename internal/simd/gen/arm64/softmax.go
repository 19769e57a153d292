package main

import "math"

// softmax is, for every row,
//
//	m' = max(m, max_j s_j)    p_j = exp(s_j − m')    α = exp(m − m')    l' = l·α + Σ_j p_j
//
// in two walks over the row's scores: one for the maximum, one for the weights.
type softmax struct {
	*function
	exp
	negInf, negZero, minAlpha vec
	hidden                    vec // not 0 once a score was −Inf
	x, mask                   vec
	top, total                vec
}

func softmaxFile(f *file) {
	g := &softmax{function: f.function("softmaxNEON",
		"takes rows of scores into their running states: see Softmax. It returns 0 where no score is −Inf.",
		"s *float32, stride int, rows int, keys int, m *float32, l *float32, alpha *float32", "uint32")}
	g.emit()
}

func (g *softmax) emit() {
	s, by, rows, keys := g.arg("s"), g.arg("stride"), g.arg("rows"), g.arg("keys")
	m, l, alpha := g.arg("m"), g.arg("l"), g.arg("alpha")
	p, turns := g.reg(), g.reg()
	g.negInf, g.negZero, g.minAlpha = g.vec(), g.vec(), g.vec()
	g.hidden, g.x, g.mask, g.top, g.total = g.vec(), g.vec(), g.vec(), g.vec(), g.vec()
	old, a, run := g.vec(), g.vec(), g.vec()
	g.broadcast(0xff800000, g.negInf, p)
	g.broadcast(1<<31, g.negZero, p)
	g.broadcast(math.Float32bits(0x1p-126), g.minAlpha, p)
	g.exp = g.newExp(p)
	g.v(zero(g.hidden))
	g.op("LSL", 2, by)

	row := g.label("row")
	g.mark(row)
	g.v(ld1r(old, 4, m), mov(g.top, old))
	g.op("MOVD", s, p)
	g.repeat(keys, lanes, turns, func(n int) { g.greatest(n, p) })
	g.v(fmaxv(g.top, g.top), dupS(g.top, g.top))
	// A row that has seen only −Inf makes NaN of −Inf − −Inf, which goes: its weights
	// become −0, its α 0.
	g.v(zero(g.total))
	g.op("MOVD", s, p)
	g.repeat(keys, lanes, turns, func(n int) { g.weigh(n, p) })
	g.v(faddp(g.total, g.total, g.total), faddp(g.total, g.total, g.total))

	// α is 0 where m was −Inf, and at least 2⁻¹²⁶ elsewhere.
	g.v(fsub(a, old, g.top))
	g.of(a)
	g.v(fmax(a, a, g.minAlpha), fcmeq(g.mask, old, g.negInf), bic(a, a, g.mask))
	g.v(ldr(run, 4, l, 0), fmla(g.total, run, a))
	g.v(strOn(g.top, 4, m), strOn(g.total, 4, l), strOn(a, 4, alpha))
	g.op("ADD", by, s)
	g.op("SUBS", 1, rows)
	g.op("BNE", row)

	g.v(umaxvS(g.hidden, g.hidden), fmovW(p, g.hidden))
	g.op("MOVW", p, g.args["ret"])
	g.ret()
}

// greatest takes n scores into the lanes' maxima. Fewer than 4 are copied into all
// lanes, so that no lane holds anything else.
func (g *softmax) greatest(n int, p reg) {
	if n == lanes {
		g.v(ldrOn(g.x, 16, p))
	} else {
		g.v(ld1rOn(g.x, 4*n, p))
	}
	g.v(fmax(g.top, g.top, g.x))
}

// weigh turns n scores into weights: −0 where the score is −Inf.
func (g *softmax) weigh(n int, p reg) {
	if n == lanes {
		g.v(ldr(g.x, 16, p, 0))
	} else {
		g.v(ld1r(g.x, 4*n, p))
	}
	g.v(fcmeq(g.mask, g.x, g.negInf), orr(g.hidden, g.hidden, g.mask))
	g.v(fsub(g.x, g.x, g.top))
	g.of(g.x)
	g.v(bit(g.x, g.negZero, g.mask))
	switch n {
	case 2:
		g.v(lowest2(g.x, g.x))
	case 1:
		g.v(lowest1(g.x, g.x))
	}
	g.v(fadd(g.total, g.total, g.x), strOn(g.x, 4*n, p))
}
