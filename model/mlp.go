package model

import (
	"cmp"
	"math"
	"slices"

	"github.com/flashdec/flashdec/internal/network"
)

// Gate implements [network.Steps].
func (b *host) Gate(i int) error {
	w := &b.net.Layers[i]
	b.norm(w.MLPNorm)
	b.gated(b.tokens, b.h, &w.Gate, &w.Up)
	return nil
}

// AddMLP implements [network.Steps].
func (b *host) AddMLP(i int) error {
	w := &b.net.Layers[i]
	b.crew.multiply(b.tokens, product{&w.Down, b.gate, b.h})
	b.addNormed(w.PostMLPNorm)
	return nil
}

// gated is act(x·gate)·(x·up) for n rows, into b.gate. Whoever computes a span of both gates it.
func (b *host) gated(n int, x []float32, gate, up *network.Linear) {
	size := b.net.MLPSize
	g, u := product{gate, x, b.gate}, product{up, x, b.up}
	if b.crew.takesPanels(n) {
		b.gatedMany(g, u, n)
		return
	}
	if g.span() != u.span() { // of different types
		b.crew.multiply(n, g, u)
		b.crew.run(n, func(_ *seat, i int) {
			applyGate(b.net.Gate, row(b.gate, i, size), row(b.gate, i, size), row(b.up, i, size))
		})
		return
	}
	b.crew.prepare(n, g, u)
	b.crew.runRuns(g.numSpans(), b.crew.spansAtOnce([]product{g, u}), func(s *seat, from, to int) {
		g.compute(s, n, from, to)
		u.compute(s, n, from, to)
		lo, hi := g.outputs(from, to)
		for i := range n {
			applyGate(b.net.Gate, b.gate[i*size+lo:i*size+hi], b.gate[i*size+lo:i*size+hi], b.up[i*size+lo:i*size+hi])
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
	m, w, size := &b.mixture, &b.net.Layers[i], b.net.HiddenSize
	b.norm(w.MLPNorm)
	m.scores = resize(m.scores, b.tokens*len(w.Experts))
	b.crew.multiply(b.tokens, product{&w.Router, b.h, m.scores})
	b.route(len(w.Experts))
	m.sum = resize(m.sum, b.tokens*size)
	clear(m.sum)
	for e, chosen := range m.chosen {
		if len(chosen) > 0 {
			b.expert(&w.Experts[e], chosen)
		}
	}
	copy(b.h, m.sum)
	b.addNormed(w.PostMLPNorm)
	return nil
}

// route chooses each token's experts: those with the highest scores, weighed by the softmax over them.
func (b *host) route(experts int) {
	m := &b.mixture
	if len(m.chosen) != experts {
		m.chosen = make([][]routing, experts)
	}
	for e := range m.chosen {
		m.chosen[e] = m.chosen[e][:0]
	}
	order := make([]int, experts)
	for t := range b.tokens {
		scores := row(m.scores, t, experts)
		for e := range order {
			order[e] = e
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
		top, sum := order[:b.net.ExpertsPerToken], 0.0
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
func (b *host) expert(e *network.Expert, chosen []routing) {
	m, n, size := &b.mixture, len(chosen), b.net.HiddenSize
	m.x, m.y = resize(m.x, n*size), resize(m.y, n*size)
	for i, r := range chosen {
		copy(row(m.x, i, size), row(b.h, r.token, size))
	}
	if e.GateUp.Data == nil {
		b.gated(n, m.x, &e.Gate, &e.Up)
	} else {
		b.gatedInterleaved(n, m.x, &e.GateUp)
	}
	b.crew.multiply(n, product{&e.Down, b.gate, m.y})
	for i, r := range chosen {
		sum := row(m.sum, r.token, size)
		for d, y := range row(m.y, i, size) {
			sum[d] += r.weight * y
		}
	}
}

// gatedInterleaved is gated where gate and up are the even and odd outputs of one matrix.
func (b *host) gatedInterleaved(n int, x []float32, w *network.Linear) {
	size, m := b.net.MLPSize, &b.mixture
	m.gateUp = resize(m.gateUp, n*2*size)
	b.crew.multiply(n, product{w, x, m.gateUp})
	b.crew.run(n, func(_ *seat, i int) {
		both, g, u := row(m.gateUp, i, 2*size), row(b.gate, i, size), row(b.up, i, size)
		for d := range g {
			g[d], u[d] = both[2*d], both[2*d+1]
		}
		applyGate(b.net.Gate, g, g, u)
	})
}
