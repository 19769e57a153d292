package gpubench

import (
	"context"
	"errors"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/internal/bench"
	"github.com/flashdec/flashdec/internal/cuda"
	"github.com/flashdec/flashdec/internal/nv"
	"github.com/flashdec/flashdec/kv"
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

// Ways makes them.
func (g *GPU) Ways(ctx context.Context, c *bench.Case) (*Ways, error) {
	w := &Ways{}
	if err := g.add(ctx, w, c); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

func (g *GPU) add(ctx context.Context, w *Ways, c *bench.Case) error {
	views, err := g.Views(ctx, c)
	if err != nil {
		return err
	}
	if err := g.addFloor(w, c); err != nil {
		return err
	}
	m, err := g.newLaunches(w, c, views)
	if err != nil {
		return err
	}
	launches := cuda.Launches(c.KVBytes(), len(views))
	if err := m.add(w, "flashdec", 0, launches); err != nil {
		return err
	}
	if err := m.add(w, "unsplit", 1, len(views)); err != nil {
		return err
	}
	w.List[len(w.List)-1].Slow = true // it may take a hundred times as long
	return nil
}

// keep has a replay closed with the rest, and makes a way of it.
func (w *Ways) keep(g *GPU, r *cuda.Replay, name string, c *bench.Case, bytes, splits int) {
	w.closers = append([]func() error{func() error { return g.Do(r.Close) }}, w.closers...)
	w.List = append(w.List, bench.Timed(name, c, bytes, splits, func(ctx context.Context) (seconds float64, err error) {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		err = g.Do(func() error {
			seconds, err = r.Seconds()
			return err
		})
		return seconds, err
	}))
}

// alloc takes device memory that is given back last.
func (w *Ways) alloc(g *GPU, bytes int) (p nv.Pointer, err error) {
	err = g.Do(func() error {
		p, err = g.Context().Alloc(bytes)
		return err
	})
	w.closers = append(w.closers, func() error { return g.Do(func() error { return g.Context().Free(p) }) })
	return p, err
}

// addFloor adds the bare read of as many bytes as the step's keys and values have,
// scales aside.
func (g *GPU) addFloor(w *Ways, c *bench.Case) error {
	const chunk = 16
	bytes := max(chunk, 2*c.Keys()*c.KVHeads*c.RowBytes()/chunk*chunk)
	sets := max(1, min(g.bytes/bytes, (cuda.LeastBytes+bytes-1)/bytes))
	var r *cuda.Replay
	err := g.Do(func() (err error) {
		r, err = g.meter.Floor(g.memory, bytes, bytes, sets)
		return err
	})
	if err == nil {
		w.keep(g, r, "ceiling", c, bytes, 0)
	}
	return err
}

// launches makes ways of a case at its places.
type launches struct {
	gpu    *GPU
	c      *bench.Case
	engine *flashdec.Engine // to plan
	views  []kv.View
	bufs   []cuda.Buffers // a place
}

func (g *GPU) newLaunches(w *Ways, c *bench.Case, views []kv.View) (*launches, error) {
	engine, err := flashdec.Open(flashdec.Options{Backend: g})
	if err != nil {
		return nil, err
	}
	m := &launches{gpu: g, c: c, engine: engine, views: views}
	query := c.Query()
	q, err := w.alloc(g, 4*len(query))
	if err != nil {
		return nil, err
	}
	out, err := w.alloc(g, 4*len(query))
	if err != nil {
		return nil, err
	}
	err = g.Do(func() error { return nv.Upload(g.Stream(), q, query) })
	for _, v := range views {
		b := cuda.Buffers{Q: q, Out: out}
		var errs [2]error
		b.K, errs[0] = cuda.PlaneOf(v.K)
		b.V, errs[1] = cuda.PlaneOf(v.V)
		err = errors.Join(err, errs[0], errs[1])
		m.bufs = append(m.bufs, b)
	}
	return m, err
}

// add adds this project's decode, with that many splits, 0 for the plan's.
func (m *launches) add(w *Ways, name string, splits, launches int) error {
	batch := m.c.Batch(splits)
	planned, err := m.engine.Plan(batch)
	if err != nil {
		return err
	}
	step, err := m.gpu.NewStep(cuda.StepConfig{
		Shape: batch.Shape, Options: &batch.Options, Plan: planned.Plan(),
		Seqs: m.views[0].Seqs, PageSize: m.views[0].PageSize, K: m.bufs[0].K, V: m.bufs[0].V,
	})
	if err != nil {
		return err
	}
	w.closers = append([]func() error{step.Close}, w.closers...)
	var r *cuda.Replay
	err = m.gpu.Do(func() (err error) {
		r, err = m.gpu.meter.Capture(launches, func(stream *nv.Stream, i int) error {
			return step.Launch(stream, m.bufs[i%len(m.bufs)])
		})
		return err
	})
	if err == nil {
		w.keep(m.gpu, r, name, m.c, m.c.KVBytes(), planned.Plan().MaxSplits())
	}
	return err
}
