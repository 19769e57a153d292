package model

import (
	"cmp"
	"math"
	"slices"
)

// Gate implements [network.Steps].
func (b *host) Gate(i int) error {
	w := &b.weights.layers[i]
	b.norm(w.mlpNorm)
	b.gated(b.tokens, b.h, &w.gate, &w.up)
	return nil
}

// AddMLP implements [network.Steps].
func (b *host) AddMLP(i int) error {
	w := &b.weights.layers[i]
	b.crew.multiply(b.tokens, product{&w.down, b.gate, b.h})
	b.addNormed(w.postMLPNorm)
	return nil
}

// gated is act(x·gate)·(x·up) for n rows, into b.gate. Whoever computes a span of both gates it.
func (b *host) gated(n int, x []float32, gate, up *linear) {
	size := b.cfg.MLPSize
	g, u := product{gate, x, b.gate}, product{up, x, b.up}
	if gate.span() != up.span() { // of different types
		b.crew.multiply(n, g, u)
		b.crew.run(n, func(_ *seat, i int) {
			b.cfg.gated.apply(row(b.gate, i, size), row(b.gate, i, size), row(b.up, i, size))
		})
		return
	}
	b.crew.prepare(n, g, u)
	b.crew.run(gate.numSpans(), func(s *seat, task int) {
		g.compute(s, n, task)
		u.compute(s, n, task)
		lo, hi := task*gate.span(), min((task+1)*gate.span(), size)
		for i := range n {
			b.cfg.gated.apply(b.gate[i*size+lo:i*size+hi], b.gate[i*size+lo:i*size+hi], b.up[i*size+lo:i*size+hi])
		}
	})
}

// mixture is the buffers of a mixture of experts.
type mixture struct {
	scores []float32   // [tokens, NumExperts]
	chosen [][]routing // of each expert
	x, y   []float32   // [some, HiddenSize] an expert's inputs and outputs
	gateUp []float32   // [some, 2·MLPSize]
	sum    []float32   // [tokens, HiddenSize]
}

// routing is a token that an expert computes, and the weight of its answer.
type routing struct {
	token  int
	weight float32
}

// Experts implements [network.Steps]: h = Σ weight · mlp_e(h) over the experts that each token's router chose.
func (b *host) Experts(i int) error {
	c, m, w := b.cfg, &b.mixture, &b.weights.layers[i]
	b.norm(w.mlpNorm)
	m.scores = resize(m.scores, b.tokens*c.NumExperts)
	b.crew.multiply(b.tokens, product{&w.router, b.h, m.scores})
	b.route()
	m.sum = resize(m.sum, b.tokens*c.HiddenSize)
	clear(m.sum)
	for e, chosen := range m.chosen {
		if len(chosen) > 0 {
			b.expert(&w.experts[e], chosen)
		}
	}
	copy(b.h, m.sum)
	b.addNormed(w.postMLPNorm)
	return nil
}

// route chooses each token's experts: those with the highest scores, weighed by the softmax over them.
func (b *host) route() {
	c, m := b.cfg, &b.mixture
	if len(m.chosen) != c.NumExperts {
		m.chosen = make([][]routing, c.NumExperts)
	}
	for e := range m.chosen {
		m.chosen[e] = m.chosen[e][:0]
	}
	order := make([]int, c.NumExperts)
	for t := range b.tokens {
		scores := row(m.scores, t, c.NumExperts)
		for e := range order {
			order[e] = e
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
		top, sum := order[:c.ExpertsPerToken], 0.0
		for _, e := range top {
			sum += math.Exp(float64(scores[e] - scores[top[0]]))
		}
		for _, e := range top {
			weight := math.Exp(float64(scores[e]-scores[top[0]])) / sum
			m.chosen[e] = append(m.chosen[e], routing{t, float32(weight)})
		}
	}
}

// expert adds one expert's answers to the sums.
func (b *host) expert(e *expert, chosen []routing) {
	c, m, n := b.cfg, &b.mixture, len(chosen)
	m.x, m.y = resize(m.x, n*c.HiddenSize), resize(m.y, n*c.HiddenSize)
	for i, r := range chosen {
		copy(row(m.x, i, c.HiddenSize), row(b.h, r.token, c.HiddenSize))
	}
	if e.gateUp.data == nil {
		b.gated(n, m.x, &e.gate, &e.up)
	} else {
		b.gatedInterleaved(n, m.x, &e.gateUp)
	}
	b.crew.multiply(n, product{&e.down, b.gate, m.y})
	for i, r := range chosen {
		sum := row(m.sum, r.token, c.HiddenSize)
		for d, y := range row(m.y, i, c.HiddenSize) {
			sum[d] += r.weight * y
		}
	}
}

// gatedInterleaved is gated where gate and up are the even and odd outputs of one matrix.
func (b *host) gatedInterleaved(n int, x []float32, w *linear) {
	size, m := b.cfg.MLPSize, &b.mixture
	m.gateUp = resize(m.gateUp, n*2*size)
	b.crew.multiply(n, product{w, x, m.gateUp})
	b.crew.run(n, func(_ *seat, i int) {
		both, g, u := row(m.gateUp, i, 2*size), row(b.gate, i, size), row(b.up, i, size)
		for d := range g {
			g[d], u[d] = both[2*d], both[2*d+1]
		}
		b.cfg.gated.apply(g, g, u)
	})
}
