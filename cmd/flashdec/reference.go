package main

import (
	"context"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/internal/filemap"
	"github.com/flashdec/flashdec/tensorfile"
)

// part is the rows of one sequence and KV head: all its queries, and all query
// heads of its group.
type part struct{ seq, head int }

// parts is how many parts the case has.
func (c *decodeCase) parts() int { return c.seqs * c.shape.NumKVHeads }

// part is the i-th part.
func (c *decodeCase) part(i int) part { return part{i / c.shape.NumKVHeads, i % c.shape.NumKVHeads} }

// block is some of a part's queries: what is judged at a time. Its rows are
// ordered [queries, GroupSize].
type block struct {
	part
	first, queries int // of the sequence's
}

// blockElements is how many elements of output a block has at most, but for one
// of a single query: half a megabyte of float64.
const blockElements = 1 << 16

// blockQueries is how many queries a block has, but for a part's last.
func (c *decodeCase) blockQueries() int {
	return max(1, blockElements/(c.shape.GroupSize()*max(c.shape.KeyDim, c.shape.ValueDim)))
}

// blocks is how many blocks a chunk has.
func (c *decodeCase) blocks(chunk piece) int {
	return chunk.seqs * c.shape.NumKVHeads * c.blocksOfPart(chunk)
}

func (c *decodeCase) blocksOfPart(chunk piece) int {
	return (chunk.queries + c.blockQueries() - 1) / c.blockQueries()
}

// block is a chunk's i-th block, those of a part one after the other.
func (c *decodeCase) block(chunk piece, i int) block {
	of := c.blocksOfPart(chunk)
	first := i % of * c.blockQueries()
	return block{c.part(chunk.seq*c.shape.NumKVHeads + i/of), chunk.query + first, min(c.blockQueries(), chunk.queries-first)}
}

// eachPart calls f for every part of the case, on several goroutines at once,
// and stops at the first error or when ctx is done.
func (c *decodeCase) eachPart(ctx context.Context, threads int, f func(p part) error) error {
	return each(ctx, threads, c.parts(), func(i int) error { return f(c.part(i)) })
}

// each calls f for 0 to n − 1, on several goroutines at once, and stops at the
// first error or when ctx is done.
func each(ctx context.Context, threads, n int, f func(i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var working sync.WaitGroup
	for range min(threads, n) {
		working.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := guarded(f, i); err != nil {
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

// guarded is f(i); a file that was cut short is an error.
func guarded(f func(i int) error, i int) (err error) {
	defer filemap.Recover(&err, debug.SetPanicOnFault(true))
	return f(i)
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

// direct is the float64 softmax of a block, with queries [queries, GroupSize, KeyDim],
// over what a source yields. It ends soon after ctx is done.
func (c *decodeCase) direct(ctx context.Context, b block, q []float32, from source) (ref attn.Reference, err error) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(stopped); !ok {
				panic(r)
			}
			err = context.Cause(ctx)
		}
	}()
	return attn.DirectBlock(c.partShape(), c.partOptions(b.part), b.seq, q, &stoppable{from(b.part), ctx, 0}, b.first, c.queries)
}

// stoppable is keys and values whose reading ends once ctx is done, by a panic: the
// direct softmax, which reads them all the time, knows of no other end than its own.
type stoppable struct {
	attn.KeyValues
	ctx   context.Context
	reads int
}

// stopped is the panic of a [stoppable].
type stopped struct{}

func (s *stoppable) Key(dst []float32, head, pos int) {
	s.look()
	s.KeyValues.Key(dst, head, pos)
}

func (s *stoppable) Value(dst []float32, head, pos int) {
	s.look()
	s.KeyValues.Value(dst, head, pos)
}

// look looks at the context, every few reads: many rows may use each.
func (s *stoppable) look() {
	const every = 16
	if s.reads++; s.reads%every == 0 && s.ctx.Err() != nil {
		panic(stopped{})
	}
}

// pick is a block's rows out of a chunk's array [seqs, queries, NumHeads, dim]: a copy
// where they do not lie together.
func (c *decodeCase) pick(packed []float32, chunk piece, b block, dim int) []float32 {
	group := c.shape.GroupSize()
	row := (chunk.place(b.seq, b.first)*c.shape.NumHeads + b.head*group) * dim
	n := group * dim
	if b.queries == 1 || c.shape.NumKVHeads == 1 {
		return packed[row:][:b.queries*n]
	}
	picked := make([]float32, 0, b.queries*n)
	for range b.queries {
		picked = append(picked, packed[row:][:n]...)
		row += c.shape.NumHeads * dim
	}
	return picked
}

// answer is what the file says is right for a block. Out or LSE is nil where the
// file does not say.
func (c *decodeCase) answer(b block) (ref attn.Reference, err error) {
	if c.out != nil {
		if ref.Out, err = c.answerRows(*c.out, b, c.shape.ValueDim); err != nil {
			return ref, err
		}
	}
	if c.lse != nil {
		ref.LSE, err = c.answerRows(*c.lse, b, 1)
	}
	return ref, err
}

// answerRows reads a block's rows of a tensor [seqs, NumHeads, queries, dim].
func (c *decodeCase) answerRows(t tensorfile.Tensor, b block, dim int) ([]float64, error) {
	group, row := c.shape.GroupSize(), dim*t.DType.Size()
	rows := make([]float64, b.queries*group*dim)
	for h := range group {
		begin := ((b.seq*c.shape.NumHeads+b.head*group+h)*c.queries + b.first) * row
		cut := tensorfile.Tensor{Name: t.Name, DType: t.DType, Shape: []int{b.queries, dim}, Data: t.Data[begin:][:b.queries*row]}
		x, err := cut.Float64s()
		if err != nil {
			return nil, err
		}
		for i := range b.queries {
			copy(rows[(i*group+h)*dim:][:dim], x[i*dim:])
		}
	}
	return rows, nil
}
