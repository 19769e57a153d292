package model

import (
	"context"

	"github.com/flashdec/flashdec/internal/network"
	"github.com/flashdec/flashdec/kv"
)

// forward computes a batch: what a model does, on whatever device.
func (r *Runner) forward(ctx context.Context, b *network.Batch) error {
	return r.steps.Run(ctx, b, func() error {
		if err := unless(ctx, r.steps.Embed()); err != nil {
			return err
		}
		for i := range r.net.Layers {
			if err := r.layer(ctx, i); err != nil {
				return err
			}
		}
		return r.steps.Head()
	})
}

// layer is x += attention(norm(x)) and x += mlp(norm(x)).
func (r *Runner) layer(ctx context.Context, i int) error {
	s := r.steps
	if err := unless(ctx, s.Project(i)); err != nil {
		return err
	}
	if err := unless(ctx, s.Attend(ctx, i)); err != nil {
		return err
	}
	if err := unless(ctx, s.AddAttention(i)); err != nil {
		return err
	}
	if r.net.Layers[i].Experts != nil {
		return unless(ctx, s.Experts(i))
	}
	if err := unless(ctx, s.Gate(i)); err != nil {
		return err
	}
	return unless(ctx, s.AddMLP(i))
}

// unless is a step's error, or that ctx is done, so that no other step begins: one takes a second of a large model's
// prompt.
func unless(ctx context.Context, err error) error {
	if err == nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// batchOf lays the parts' tokens out, all parts' one after the other.
func (r *Runner) batchOf(parts []Part) *network.Batch {
	b := &network.Batch{Seqs: make([][]*kv.Sequence, len(r.caches))}
	vocab := r.model.config.VocabSize
	for _, p := range parts {
		first, n := len(b.IDs), len(p.IDs)
		b.IDs = append(b.IDs, p.IDs...)
		b.Queries = append(b.Queries, n)
		for j := range n {
			b.Positions = append(b.Positions, p.Seq.n+j)
		}
		wanted := len(p.Logits) / vocab
		for j := range wanted {
			b.Rows = append(b.Rows, first+n-wanted+j)
			b.Logits = append(b.Logits, p.Logits[j*vocab:(j+1)*vocab])
		}
	}
	for i, c := range r.caches {
		lens := make([]int, len(parts))
		for j, p := range parts {
			seq := p.Seq.caches[i]
			b.Seqs[i] = append(b.Seqs[i], seq)
			lens[j] = seq.Len() + len(p.IDs)
		}
		b.Lens[c.Kind] = lens // the same in all caches of a kind
	}
	return b
}

// commit counts the tokens in, and gives back pages that no window reaches any more.
func (r *Runner) commit(parts []Part) error {
	for _, p := range parts {
		p.Seq.n += len(p.IDs)
		for i, seq := range p.Seq.caches {
			if err := r.forget(i, seq); err != nil {
				return err
			}
		}
	}
	return nil
}

// forget gives back the pages of cache i's sequence that its window does not reach any more.
func (r *Runner) forget(i int, seq *kv.Sequence) error {
	reach := seq.Len() - (r.model.config.Window - 1)
	if r.caches[i].Kind != sliding || reach <= 0 {
		return nil
	}
	_, err := seq.Forget(reach)
	return err
}

// rollBack takes the new keys out of the caches that have them.
func (r *Runner) rollBack(b *network.Batch) {
	for c, cache := range r.caches {
		for i, seq := range b.Seqs[c] {
			_ = seq.Truncate(b.Lens[cache.Kind][i] - b.Queries[i]) // fails only on what is closed
		}
	}
}
