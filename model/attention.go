package model

import (
	"context"
	"time"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/attn"
)

// turnTables computes the angles of all tokens, for each kind of layer that the model has.
func (b *batch) turnTables() {
	half := b.cfg.HeadDim / 2
	for k := range numKinds {
		if !b.has(k) {
			continue
		}
		b.each(func(lo, hi int) {
			for i := lo; i < hi; i++ {
				b.cfg.ropes[k].angles(b.cos[k][i*half:(i+1)*half], b.sin[k][i*half:(i+1)*half], b.positions[i])
			}
		})
	}
}

// has reports whether any layer is of a kind.
func (b *batch) has(k kind) bool {
	n := b.cfg.NumSliding()
	if k == full {
		n = b.cfg.NumLayers() - n
	}
	return n > 0
}

// plan plans the attention of all layers: one plan a kind.
func (b *batch) plan() error {
	defer b.timed(time.Now())
	for k := range numKinds {
		if !b.has(k) {
			continue
		}
		var err error
		b.steps[k], err = b.runner.opt.Engine.Plan(flashdec.Batch{
			Shape:      b.cfg.Shape(),
			Options:    attn.Options{Scale: b.cfg.Scale, Softcap: b.cfg.Softcap, Causal: true, Window: b.cfg.window(k)},
			Lens:       b.lens[k],
			NumQueries: b.queries,
			NumSplits:  b.runner.opt.NumSplits,
			Invariant:  b.runner.opt.Invariant,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// attention is x += attention(norm(x)) of layer i.
func (b *batch) attention(ctx context.Context, i int, w *layer) error {
	b.norm(w.attnNorm)
	b.crew.multiply(b.tokens,
		product{&w.query, b.h, b.q},
		product{&w.key, b.h, b.k},
		product{&w.value, b.h, b.v},
	)
	b.turn(w)
	if err := b.decode(ctx, i, w); err != nil {
		return err
	}
	b.crew.multiply(b.tokens, product{&w.out, b.o, b.h})
	b.addNormed(w.postAttnNorm)
	return nil
}

// turn norms the heads of queries and keys where the family does, and turns them to their positions.
func (b *batch) turn(w *layer) {
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

// decode stores the new keys and values of layer i and attends: the engine's part.
func (b *batch) decode(ctx context.Context, i int, w *layer) error {
	defer b.timed(time.Now())
	b.seqs = b.seqs[:0]
	size, first := b.cfg.NumKVHeads*b.cfg.HeadDim, 0
	for _, p := range b.parts {
		seq, end := p.Seq.layers[i], first+len(p.IDs)
		if err := seq.Append(b.k[first*size:end*size], b.v[first*size:end*size]); err != nil {
			return err
		}
		b.seqs, first = append(b.seqs, seq), end
	}
	view, err := b.runner.caches[i].View(b.seqs...)
	if err != nil {
		return err
	}
	step := b.steps[w.kind]
	if w.sinks != nil {
		if step, err = step.WithSinks(w.sinks); err != nil {
			return err
		}
	}
	return b.runner.opt.Engine.Decode(ctx, step, b.q, view, &flashdec.Output{Out: b.o})
}
