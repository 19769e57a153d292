package model

import (
	"context"
	"time"

	"github.com/flashdec/flashdec"
)

// turnTables computes the angles of all tokens, for each kind of layer that the model has.
func (b *host) turnTables() {
	half := b.cfg.HeadDim / 2
	for k := range numKinds {
		if !b.has(k) {
			continue
		}
		b.each(func(lo, hi int) {
			for i := lo; i < hi; i++ {
				b.cfg.ropes[k].angles(b.cos[k][i*half:(i+1)*half], b.sin[k][i*half:(i+1)*half], b.in.Positions[i])
			}
		})
	}
}

// has reports whether any layer is of a kind.
func (b *host) has(k kind) bool { return b.in.Lens[k] != nil }

// plan plans the attention of all layers: one plan a kind.
func (b *host) plan() error {
	defer b.timed(time.Now())
	for k := range numKinds {
		if !b.has(k) {
			continue
		}
		var err error
		if b.steps[k], err = b.options.Plan(k, b.in.Lens[k], b.in.Queries); err != nil {
			return err
		}
	}
	return nil
}

// Project implements [network.Steps].
func (b *host) Project(i int) error {
	w := &b.weights.layers[i]
	b.norm(w.attnNorm)
	b.crew.multiply(b.tokens,
		product{&w.query, b.h, b.q},
		product{&w.key, b.h, b.k},
		product{&w.value, b.h, b.v},
	)
	return nil
}

// AddAttention implements [network.Steps].
func (b *host) AddAttention(i int) error {
	w := &b.weights.layers[i]
	b.crew.multiply(b.tokens, product{&w.out, b.o, b.h})
	b.addNormed(w.postAttnNorm)
	return nil
}

// turn norms the heads of queries and keys where the family does, and turns them to their positions.
func (b *host) turn(w *layer) {
	c, half, r := b.cfg, b.cfg.HeadDim/2, &b.cfg.ropes[w.kind]
	b.each(func(lo, hi int) {
		for i := lo; i < hi; i++ {
			cos, sin := b.cos[w.kind][i*half:(i+1)*half], b.sin[w.kind][i*half:(i+1)*half]
			for _, side := range [...]struct{ x, norm []float32 }{
				{row(b.q, i, c.NumHeads*c.HeadDim), w.queryNorm}, {row(b.k, i, c.NumKVHeads*c.HeadDim), w.keyNorm},
			} {
				if side.norm != nil {
					normRows(side.x, side.x, side.norm, c.NormEps)
				}
				for d := 0; d < len(side.x); d += c.HeadDim {
					r.turn(side.x[d:d+c.HeadDim], cos, sin)
				}
			}
		}
	})
}

// row is row i of x.
func row(x []float32, i, size int) []float32 { return x[i*size : (i+1)*size] }

// Attend implements [network.Steps]: the attention is the engine's part.
func (b *host) Attend(ctx context.Context, i int) error {
	w := &b.weights.layers[i]
	b.turn(w)
	defer b.timed(time.Now())
	size, first := b.cfg.NumKVHeads*b.cfg.HeadDim, 0
	for j, seq := range b.in.Seqs[i] {
		end := first + b.in.Queries[j]
		if err := seq.Append(b.k[first*size:end*size], b.v[first*size:end*size]); err != nil {
			return err
		}
		first = end
	}
	view, err := b.caches[i].View(b.in.Seqs[i]...)
	if err != nil {
		return err
	}
	step := b.steps[w.kind]
	if w.sinks != nil {
		if step, err = step.WithSinks(w.sinks); err != nil {
			return err
		}
	}
	return b.engine.Decode(ctx, step, b.q, view, &flashdec.Output{Out: b.o})
}
