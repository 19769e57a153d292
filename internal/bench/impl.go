package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/internal/simd"
	"github.com/flashdec/flashdec/kv"
)

// Impl is one way to compute a case, measured beside the others.
type Impl struct {
	Name   string
	Case   Case   // what it computes: slow ones get fewer keys
	Splits int    // most splits of a sequence and head; 0: it has none
	Note   string // what is special about its figures
	Slow   bool   // measured in the first rounds alone
	// Step computes the case at one of its places, [0, Places).
	Step func(ctx context.Context, place int) error

	dtype   string // a peer's own name for the type of keys and values
	kernel  string // and for what it computes with
	bytes   int    // that a step reads
	places  int
	round   func(context.Context) (float64, error) // a step at every place; seconds of one
	seconds []float64                              // of a step, in each round
	ceiling []float64                              // bytes a second of the bare read just before
	base    *Impl                                  // measured in the same rounds, to compare with
}

// Places is how many places the case lies at.
func (im *Impl) Places() int { return im.places }

// Bytes is what a step reads.
func (im *Impl) Bytes() int { return im.bytes }

// newImpl makes a way of its step, one place after the other, at the case's level: what is not looked up
// when an engine is opened, like how far ahead rows are fetched, is then of that level, too.
func newImpl(name string, c *Case, places int, step func(context.Context, int) error) *Impl {
	im := &Impl{Name: name, Case: *c, Step: step, bytes: c.KVBytes(), places: places}
	level := c.Level
	im.round = func(ctx context.Context) (float64, error) {
		if level != "" {
			restore, err := simd.SetLevel(level)
			if err != nil {
				return 0, err
			}
			defer restore()
		}
		start := time.Now()
		for i := range places {
			if err := step(ctx, i); err != nil {
				return 0, err
			}
		}
		return time.Since(start).Seconds() / float64(places), ctx.Err()
	}
	return im
}

// Timed is a way that reads so many bytes a step and times its own steps: a round yields the
// seconds of one.
func Timed(name string, c *Case, bytes, splits int, round func(context.Context) (float64, error)) *Impl {
	return &Impl{Name: name, Case: *c, Splits: splits, bytes: bytes, places: 1, round: round}
}

// Peer is what another implementation says of itself and of a case.
type Peer struct {
	Impl    string `json:"impl"`
	Kernel  string `json:"kernel"`
	KVDType string `json:"kv_dtype"` // its own type, nearest to the one asked for
	KVBytes int    `json:"kv_bytes"`
}

// Way is the peer's way to compute the case. It times its own steps.
func (p *Peer) Way(c *Case, seconds func(context.Context) (float64, error)) *Impl {
	return &Impl{Name: p.Impl, Case: *c, dtype: p.KVDType, kernel: p.Kernel, bytes: p.KVBytes, places: 1, round: seconds}
}

// Impls are the ways to compute a case, the read ceiling first.
func Impls(ctx context.Context, c *Case, a *Arena, threads int, eng *flashdec.Engine) ([]*Impl, error) {
	views, err := a.Views(ctx, c)
	if err != nil {
		return nil, err
	}
	list := []*Impl{ceilingOf(c, views, threads)}
	for _, way := range []struct {
		name   string
		splits int
	}{{"flashdec", 0}, {"unsplit", 1}} {
		im, err := decodeOf(way.name, c, views, eng, way.splits)
		if err != nil {
			return nil, err
		}
		list = append(list, im)
	}
	short := c.shortened()
	if views, err = a.Views(ctx, &short); err != nil {
		return nil, err
	}
	for _, im := range []*Impl{directOf(&short, views[:1], threads), plainOf(&short, views[:1], threads)} {
		im.Slow, im.Note = true, c.shortNote(&short)
		list = append(list, im)
	}
	return list, nil
}

// slowWork is how many products of a query row's element with a key's the slow
// ways get: beyond the caches, and some hundredths of a second.
const slowWork = 1 << 23

// shortened is the case as the slow ways get it: one sequence, the longest, of as
// many keys as slowWork allows.
func (c *Case) shortened() Case {
	short := *c
	short.Lens = []int{min(slices.Max(c.Lens), max(1, slowWork/(c.Heads*c.Dim)))}
	short.PageSize = min(c.PageSize, short.Lens[0])
	return short
}

// shortNote tells how the slow ways' case differs.
func (c *Case) shortNote(short *Case) string {
	if c.Keys() == short.Keys() {
		return ""
	}
	return fmt.Sprintf("slow: measured on %d of %d keys", short.Keys(), c.Keys())
}

// decodeOf is this project's decode, with that many splits, 0 for the plan's.
func decodeOf(name string, c *Case, views []kv.View, eng *flashdec.Engine, splits int) (*Impl, error) {
	step, err := eng.Plan(c.Batch(splits))
	if err != nil {
		return nil, err
	}
	q, out := c.Query(), step.NewOutput()
	im := newImpl(name, c, len(views), func(ctx context.Context, place int) error {
		return eng.Decode(ctx, step, q, views[place], out)
	})
	im.Splits = step.Plan().MaxSplits()
	return im, nil
}

// Query makes the step's queries, [sequences, Heads, Dim]: beside keys in bfloat16 and
// in 8-bit floats those that bfloat16 holds, as they are in models that compute in it.
func (c *Case) Query() []float32 {
	rng := rand.New(rand.NewPCG(4, 5))
	q := make([]float32, len(c.Lens)*c.Heads*c.Dim)
	for i := range q {
		q[i] = float32(rng.NormFloat64())
	}
	switch c.DType {
	case kv.BF16, kv.F8E4M3, kv.F8E5M2:
		short := make([]byte, simd.BF16.RowBytes(len(q)))
		simd.Narrow(short, simd.BF16, q)
		simd.Widen(q, simd.BF16, short)
	}
	return q
}

// directOf is the direct softmax in float64, some KV heads on each thread.
func directOf(c *Case, views []kv.View, threads int) *Impl {
	shape, opt, q := c.Shape(), attn.Options{Window: c.Window}, c.Query()
	size := len(q) / c.KVHeads
	shape.NumHeads, shape.NumKVHeads = shape.GroupSize(), 1
	return newImpl("direct", c, len(views), func(ctx context.Context, place int) error {
		failed := make([]error, c.KVHeads)
		share(c.KVHeads, threads, func(lo, hi int) {
			for head := lo; head < hi && ctx.Err() == nil; head++ {
				_, failed[head] = attn.Direct(shape, &opt, 0, q[head*size:][:size], oneHead{views[place].Sequence(0), head})
			}
		})
		return errors.Join(append(failed, ctx.Err())...)
	})
}

// oneHead is one KV head of a sequence, as an [attn.KeyValues] of a single head.
type oneHead struct {
	attn.KeyValues
	head int
}

func (h oneHead) Key(dst []float32, _, pos int)   { h.KeyValues.Key(dst, h.head, pos) }
func (h oneHead) Value(dst []float32, _, pos int) { h.KeyValues.Value(dst, h.head, pos) }

// plainOf is the loop of plain.go, some KV heads on each thread.
func plainOf(c *Case, views []kv.View, threads int) *Impl {
	q := c.Query()
	out, size := make([]float32, len(q)), len(q)/c.KVHeads
	return newImpl("plain", c, len(views), func(ctx context.Context, place int) error {
		share(c.KVHeads, threads, func(lo, hi int) {
			for head := lo; head < hi && ctx.Err() == nil; head++ {
				plainHead(c, &views[place], head, q[head*size:][:size], out[head*size:][:size])
			}
		})
		return ctx.Err()
	})
}
