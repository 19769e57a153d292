package gpubench

import (
	"context"
	"errors"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/internal/bench"
	"github.com/flashdec/flashdec/internal/cuda"
	"github.com/flashdec/flashdec/internal/nv"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/plan"
)

// Ways are the ways to compute a case on the GPU, the bare read first, each timed by
// replays of a graph of its launches over all places. The direct softmax and the plain
// loop are the CPU's alone.
type Ways struct {
	List    []*bench.Impl
	closers []func() error // in the order of closing
}

// Close gives graphs, steps and buffers back.
func (w *Ways) Close() error {
	var err error
	for _, f := range w.closers {
		err = errors.Join(err, f())
	}
	return err
}

// Ways makes them, planned by an engine on the GPU.
func (g *GPU) Ways(ctx context.Context, c *bench.Case, engine *flashdec.Engine) (*Ways, error) {
	w := &Ways{}
	if err := g.add(ctx, w, c, engine); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

func (g *GPU) add(ctx context.Context, w *Ways, c *bench.Case, engine *flashdec.Engine) error {
	if err := g.addFloor(w, c); err != nil {
		return err
	}
	l, err := g.newLaunches(ctx, w, c)
	if err != nil {
		return err
	}
	for _, way := range []struct {
		name     string
		splits   int
		launches int
	}{
		{"flashdec", 0, cuda.Launches(c.KVBytes(), len(l.bufs))},
		{"unsplit", 1, len(l.bufs)},
	} {
		step, err := engine.Plan(c.Batch(way.splits))
		if err != nil {
			return err
		}
		take, err := l.time(step.Plan(), way.launches)
		if err != nil {
			return err
		}
		im := bench.Timed(way.name, c, c.KVBytes(), step.Plan().MaxSplits(), take)
		im.Slow = way.splits == 1 // it may take a hundred times as long
		w.List = append(w.List, im)
	}
	return nil
}

// Plans are the seconds of a step by each of several plans, whenever they are asked
// for, until the ways are closed.
func (g *GPU) Plans(ctx context.Context, c *bench.Case, plans []*plan.Plan) (*Ways, []func(context.Context) (float64, error), error) {
	w := &Ways{}
	l, err := g.newLaunches(ctx, w, c)
	var all []func(context.Context) (float64, error)
	for i := 0; err == nil && i < len(plans); i++ {
		var take func(context.Context) (float64, error)
		take, err = l.time(plans[i], cuda.Launches(c.KVBytes(), len(l.bufs)))
		all = append(all, take)
	}
	if err != nil {
		return nil, nil, errors.Join(err, w.Close())
	}
	return w, all, nil
}

// first has something closed before all else.
func (w *Ways) first(f func() error) { w.closers = append([]func() error{f}, w.closers...) }

// alloc takes device memory that is given back last.
func (w *Ways) alloc(g *GPU, bytes int) (p nv.Pointer, err error) {
	err = g.Do(func() error {
		p, err = g.Context().Alloc(bytes)
		return err
	})
	w.closers = append(w.closers, func() error { return g.Do(func() error { return g.Context().Free(p) }) })
	return p, err
}

// keep has a replay closed with the rest, and tells its time when asked.
func (w *Ways) keep(g *GPU, r *cuda.Replay) func(context.Context) (float64, error) {
	w.first(func() error { return g.Do(r.Close) })
	return func(ctx context.Context) (seconds float64, err error) {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		err = g.Do(func() error {
			seconds, err = r.Seconds()
			return err
		})
		return seconds, err
	}
}

// addFloor adds the bare read of as many bytes as the step's keys and values have,
// scales aside.
func (g *GPU) addFloor(w *Ways, c *bench.Case) error {
	const chunk = 16
	bytes := max(chunk, 2*c.Keys()*c.KVHeads*c.RowBytes()/chunk*chunk)
	sets := max(1, min(g.bytes/bytes, (cuda.LeastBytes+bytes-1)/bytes))
	var r *cuda.Replay
	err := g.Do(func() (err error) {
		if err = g.fill(c.DType); err == nil {
			r, err = g.meter.Floor(g.memory, bytes, bytes, sets)
		}
		return err
	})
	if err == nil {
		w.List = append(w.List, bench.Timed("ceiling", c, bytes, 0, w.keep(g, r)))
	}
	return err
}

// launches computes a case at its places.
type launches struct {
	gpu  *GPU
	ways *Ways
	c    *bench.Case
	view kv.View        // at the first place
	bufs []cuda.Buffers // a place
}

func (g *GPU) newLaunches(ctx context.Context, w *Ways, c *bench.Case) (*launches, error) {
	views, err := g.Views(ctx, c)
	if err != nil {
		return nil, err
	}
	query := c.Query()
	q, err := w.alloc(g, 4*len(query))
	if err != nil {
		return nil, err
	}
	out, err := w.alloc(g, 4*len(query))
	if err != nil {
		return nil, err
	}
	if err := g.Do(func() error { return nv.Upload(g.Stream(), q, query) }); err != nil {
		return nil, err
	}
	l := &launches{gpu: g, ways: w, c: c, view: views[0]}
	for _, v := range views {
		b := cuda.Buffers{Q: q, Out: out}
		if b.K, err = cuda.PlaneOf(v.K); err != nil {
			return nil, err
		}
		if b.V, err = cuda.PlaneOf(v.V); err != nil {
			return nil, err
		}
		l.bufs = append(l.bufs, b)
	}
	return l, nil
}

// time makes a replay of so many launches by a plan, and tells the time of one when
// asked.
func (l *launches) time(p *plan.Plan, count int) (func(context.Context) (float64, error), error) {
	batch := l.c.Batch(0)
	step, err := l.gpu.NewStep(cuda.StepConfig{
		Shape: batch.Shape, Options: &batch.Options, Plan: p,
		Seqs: l.view.Seqs, PageSize: l.view.PageSize, K: l.bufs[0].K, V: l.bufs[0].V,
	})
	if err != nil {
		return nil, err
	}
	l.ways.first(step.Close)
	var r *cuda.Replay
	err = l.gpu.Do(func() (err error) {
		r, err = l.gpu.meter.Capture(count, func(stream *nv.Stream, i int) error {
			return step.Launch(stream, l.bufs[i%len(l.bufs)])
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	return l.ways.keep(l.gpu, r), nil
}
