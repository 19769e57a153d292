package model

import (
	"context"
	"time"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/internal/network"
)

// turnTables computes the angles of all tokens, for each kind of layer that the model has.
func (b *host) turnTables() {
	half := b.net.Shape.KeyDim / 2
	for k := range numKinds {
		if !b.has(k) {
			continue
		}
		b.each(func(lo, hi int) {
			for i := lo; i < hi; i++ {
				angles(&b.net.Ropes[k], b.cos[k][i*half:(i+1)*half], b.sin[k][i*half:(i+1)*half], b.in.Positions[i])
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
	w := &b.net.Layers[i]
	b.norm(w.AttnNorm)
	b.crew.multiply(b.tokens,
		product{&w.Query, b.h, b.q},
		product{&w.Key, b.h, b.k},
		product{&w.Value, b.h, b.v},
	)
	return nil
}

// AddAttention implements [network.Steps].
func (b *host) AddAttention(i int) error {
	w := &b.net.Layers[i]
	b.crew.multiply(b.tokens, product{&w.Out, b.o, b.h})
	b.addNormed(w.PostAttnNorm)
	return nil
}

// turn norms the heads of queries and keys where the family does, and turns them to their positions.
func (b *host) turn(w *network.Layer) {
	n, dim, half, r := b.net, b.net.Shape.KeyDim, b.net.Shape.KeyDim/2, &b.net.Ropes[w.Kind]
	b.each(func(lo, hi int) {
		for i := lo; i < hi; i++ {
			cos, sin := b.cos[w.Kind][i*half:(i+1)*half], b.sin[w.Kind][i*half:(i+1)*half]
			for _, side := range [...]struct{ x, norm []float32 }{
				{row(b.q, i, n.Shape.NumHeads*dim), w.QueryNorm}, {row(b.k, i, n.Shape.NumKVHeads*dim), w.KeyNorm},
			} {
				if side.norm != nil {
					normRows(side.x, side.x, side.norm, n.NormEps)
				}
				for d := 0; d < len(side.x); d += dim {
					turn(r, side.x[d:d+dim], cos, sin)
				}
			}
		}
	})
}

// row is row i of x.
func row(x []float32, i, size int) []float32 { return x[i*size : (i+1)*size] }

// Attend implements [network.Steps]: the attention is the engine's part.
func (b *host) Attend(ctx context.Context, i int) error {
	w := &b.net.Layers[i]
	b.turn(w)
	defer b.timed(time.Now())
	size, first := b.net.Shape.NumKVHeads*b.net.Shape.KeyDim, 0
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
	step := b.steps[w.Kind]
	if w.Sinks != nil {
		if step, err = step.WithSinks(w.Sinks); err != nil {
			return err
		}
	}
	return b.engine.Decode(ctx, step, b.q, view, &flashdec.Output{Out: b.o})
}
