package main

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/tensorfile"
)

// part is the rows of one sequence and KV head: all its queries, and all query
// heads of its group. Its rows are ordered [queries, GroupSize].
type part struct{ seq, head int }

func (c *decodeCase) parts() []part {
	parts := make([]part, 0, c.seqs*c.shape.NumKVHeads)
	for seq := range c.seqs {
		for head := range c.shape.NumKVHeads {
			parts = append(parts, part{seq, head})
		}
	}
	return parts
}

// eachPart calls f for every part of the case, on several goroutines at once,
// and stops at the first error or when ctx is done.
func (c *decodeCase) eachPart(ctx context.Context, threads int, f func(p part) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	parts := c.parts()
	var next atomic.Int64
	var working sync.WaitGroup
	for range min(threads, len(parts)) {
		working.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(parts) {
					return
				}
				if err := f(parts[i]); err != nil {
					cancel(err)
				}
			}
		})
	}
	working.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// source yields a part's keys and values, as an [attn.KeyValues] of one head.
type source func(p part) attn.KeyValues

// partShape is the shape of one part: one KV head and its group.
func (c *decodeCase) partShape() attn.Shape {
	s := c.shape
	s.NumHeads, s.NumKVHeads = s.GroupSize(), 1
	return s
}

// partOptions are the case's rules, cut down to a part's heads.
func (c *decodeCase) partOptions(p part) *attn.Options {
	o, group := c.options, c.shape.GroupSize()
	if o.Slopes != nil {
		o.Slopes = o.Slopes[p.head*group:][:group]
	}
	if o.Sinks != nil {
		o.Sinks = o.Sinks[p.head*group:][:group]
	}
	return &o
}

// direct is the float64 softmax of a part, over what a source yields.
func (c *decodeCase) direct(p part, from source) (attn.Reference, error) {
	return attn.Direct(c.partShape(), c.partOptions(p), p.seq, c.pick(c.q, p, c.shape.KeyDim), from(p))
}

// pick copies a part's rows out of a packed array [seqs, queries, NumHeads, dim].
func (c *decodeCase) pick(packed []float32, p part, dim int) []float32 {
	n := c.shape.GroupSize() * dim
	picked := make([]float32, 0, c.queries*n)
	for query := range c.queries {
		row := (p.seq*c.queries+query)*c.shape.NumHeads + p.head*c.shape.GroupSize()
		picked = append(picked, packed[row*dim:][:n]...)
	}
	return picked
}

// answer is what the file says is right for a part. Out or LSE is nil where the
// file does not say.
func (c *decodeCase) answer(p part) (ref attn.Reference, err error) {
	if c.out != nil {
		if ref.Out, err = c.answerRows(*c.out, p, c.shape.ValueDim); err != nil {
			return ref, err
		}
	}
	if c.lse != nil {
		ref.LSE, err = c.answerRows(*c.lse, p, 1)
	}
	return ref, err
}

// answerRows cuts a part's rows out of a tensor [seqs, NumHeads, queries, dim].
func (c *decodeCase) answerRows(t tensorfile.Tensor, p part, dim int) ([]float64, error) {
	group := c.shape.GroupSize()
	size := group * c.queries * dim * t.DType.Size()
	begin := (p.seq*c.shape.NumKVHeads + p.head) * size
	cut := tensorfile.Tensor{Name: t.Name, DType: t.DType, Shape: []int{group, c.queries, dim}, Data: t.Data[begin : begin+size]}
	x, err := cut.Float64s()
	if err != nil {
		return nil, err
	}
	return swapMiddle(x, 1, group, c.queries, dim), nil
}
