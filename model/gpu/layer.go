package gpu

import (
	"errors"

	"github.com/flashdec/flashdec/internal/nv"
)

// Embed implements [network.Steps].
func (s *steps) Embed() error {
	e := &s.w.embedding
	return launch(s.d, embedRows, grid(s.tokens, 1), block, 0, embedParams{
		w: e.params(), ids: s.numbers(rowIDs), x: s.buffers.x, cols: int32(e.cols), scale: float32(s.n.EmbedScale),
	})
}

// Project implements [network.Steps].
func (s *steps) Project(i int) error {
	w, b := &s.w.layers[i], &s.buffers
	p := &product{x: b.x, norm: w.attnNorm, n: s.tokens, outputs: []output{{&w.query, b.q}, {&w.key, b.k}, {&w.value, b.v}}}
	if s.turnsInProduct(i) {
		p.finish, p.rotation = turned, s.rotation(i)
	}
	return s.multiply(p)
}

// AddAttention implements [network.Steps].
func (s *steps) AddAttention(i int) error {
	w := &s.w.layers[i]
	return s.addProduct(&w.out, s.buffers.o, w.postAttnNorm)
}

// addProduct is x += norm(W·from).
func (s *steps) addProduct(w *linear, from, norm nv.Pointer) error {
	b := &s.buffers
	if norm == 0 {
		return s.multiply(&product{x: from, n: s.tokens, outputs: []output{{w, b.x}}, finish: add})
	}
	return errors.Join(
		s.multiply(&product{x: from, n: s.tokens, outputs: []output{{w, b.h}}}),
		s.normInto(b.x, b.h, norm, s.tokens, w.rows, true),
	)
}

// Gate implements [network.Steps].
func (s *steps) Gate(i int) error {
	w, b := &s.w.layers[i], &s.buffers
	return s.multiply(&product{
		x: b.x, norm: w.mlpNorm, n: s.tokens, outputs: []output{{&w.gate, b.gate}, {&w.up, b.up}}, finish: gated,
	})
}

// AddMLP implements [network.Steps].
func (s *steps) AddMLP(i int) error {
	w := &s.w.layers[i]
	return s.addProduct(&w.down, s.buffers.gate, w.postMLPNorm)
}

// Experts implements [network.Steps]: each token's experts are read for that token.
func (s *steps) Experts(i int) error {
	w, b, hidden := &s.w.layers[i], &s.buffers, s.n.HiddenSize
	per := s.n.ExpertsPerToken
	y, adding := b.x, int32(1)
	if w.postMLPNorm != 0 {
		y, adding = b.h, 0
	}
	return errors.Join(
		s.normInto(b.h, b.x, w.mlpNorm, s.tokens, hidden, false),
		s.multiply(&product{x: b.h, n: s.tokens, outputs: []output{{&w.router, b.scores}}}),
		launch(s.d, routeTokens, grid(s.tokens, 1), warp, 0, routeParams{
			scores: b.scores, chosen: b.chosen, weights: b.mix, experts: int32(w.router.rows), perToken: int32(per),
		}),
		s.expertProducts(&product{x: b.h, outputs: []output{{&w.gate, b.gate}, {&w.up, b.gate}}, finish: gated}, per),
		s.expertProducts(&product{x: b.gate, outputs: []output{{&w.down, b.answers}}}, 1),
		launch(s.d, mixAnswers, grid(tiles(hidden, block), s.tokens), block, 0, mixParams{
			answers: b.answers, weights: b.mix, y: y, cols: int32(hidden), perToken: int32(per), add: adding,
		}),
		s.postNorm(w.postMLPNorm, adding == 0),
	)
}

func (s *steps) postNorm(norm nv.Pointer, wanted bool) error {
	if !wanted {
		return nil
	}
	return s.normInto(s.buffers.x, s.buffers.h, norm, s.tokens, s.n.HiddenSize, true)
}

// expertProducts computes a product for each of a token's experts; per of them share a row of x.
func (s *steps) expertProducts(p *product, per int) error {
	q := s.productParams(p, 0)
	q.experts, q.perToken, q.tokens = s.buffers.chosen, int32(per), 1
	pairs := s.tokens * s.n.ExpertsPerToken
	cols, rows := nv.Pointer(p.outputs[0].w.cols), nv.Pointer(p.outputs[0].w.rows)
	for first := 0; first < pairs; first += maxGridY / per * per {
		n, part, at := min(pairs-first, maxGridY/per*per), q, nv.Pointer(first)
		part.experts += 4 * at
		part.x += 4 * at / nv.Pointer(per) * cols
		for i := range part.outputs[:part.numOutputs] {
			part.outputs[i].y += 4 * at * rows
		}
		if err := s.launchProduct(firstOf(p.outputs[0].w.elem), &part, n); err != nil {
			return err
		}
	}
	return nil
}

// Head implements [network.Steps]. The logits stay on the device until the batch's are fetched, or go to the
// host some at a time where there are many.
func (s *steps) Head() error {
	if s.recording {
		return s.head(s.buffers.x, s.tokens, s.w.norm)
	}
	size := s.n.HiddenSize
	for first := 0; first < len(s.in.Rows); first += logitRows {
		n := min(logitRows, len(s.in.Rows)-first)
		err := launch(s.d, normRows, grid(n, 1), block, 0, normParams{
			x: s.buffers.x, weight: s.w.norm, rows: s.numbers(rowRows) + nv.Pointer(4*first), y: s.buffers.h, cols: int32(size), eps: float32(s.n.NormEps),
		})
		if err := errors.Join(err, s.head(s.buffers.h, n, 0), s.fetch(s.in.Logits[first:first+n])); err != nil {
			return err
		}
	}
	return nil
}

// head is the logits of n rows of x, normed first unless norm is 0.
func (s *steps) head(x nv.Pointer, n int, norm nv.Pointer) error {
	return s.multiply(&product{x: x, norm: norm, n: n, outputs: []output{{&s.w.head, s.buffers.logits}}, softcap: s.n.FinalSoftcap})
}

// fetch brings logits to the host.
func (s *steps) fetch(to [][]float32) error {
	for i, place := range to {
		if err := nv.Download(s.d.stream, place, s.buffers.logits+nv.Pointer(4*i*s.n.VocabSize)); err != nil {
			return err
		}
	}
	return nil
}
