package main

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/kv"
)

// decoder computes a case on an engine.
type decoder struct {
	c       *decodeCase
	backend backend.Backend // the engine's
	engine  *flashdec.Engine
	cache   *caseCache
	found   tuned // constants of this machine
	room    int   // bytes that a step's plan and partial states may take
	gogc    int   // the collector's percentage before
}

// newDecoder opens an engine and brings the case into its cache.
func newDecoder(ctx context.Context, c *decodeCase, f *engineFlags) (*decoder, error) {
	b, engine, err := f.open()
	if err != nil {
		return nil, err
	}
	cache, err := newCache(ctx, c, f.PageSize, f.KVDType)
	if err != nil {
		_ = engine.Close() // err is the failure to report
		return nil, err
	}
	return &decoder{c: c, backend: b, engine: engine, cache: cache, room: stepRoom, gogc: debug.SetGCPercent(c.garbagePercent())}, nil
}

func (d *decoder) close() error {
	debug.SetGCPercent(d.gogc)
	return errors.Join(d.cache.close(), d.engine.Close())
}

// garbagePercent is how much garbage the collector is to leave beside what lives:
// by its default as much again, here some megabytes. What lives is few large arrays
// without pointers, which cost it nothing to look at.
func (c *decodeCase) garbagePercent() int {
	const garbage, least = 24 << 20, 5
	rows := c.seqs * c.queries * c.shape.NumHeads
	living := 4 * rows * (c.shape.KeyDim + c.shape.ValueDim + 1)
	return min(100, max(least, garbage/(living/100+1)))
}

// decoded is a result, and how it came about.
type decoded struct {
	*flashdec.Output
	steps        int // that the case was cut into
	splits       int // the most of any unit
	units, items int
	reason       string // for the first step's splits
	woken        woken  // for it
	seconds      float64
}

// newResult is room for results of the case, one after the other.
func (d *decoder) newResult() *decoded {
	rows := d.c.seqs * d.c.queries * d.c.shape.NumHeads
	return &decoded{Output: &flashdec.Output{Out: make([]float32, rows*d.c.shape.ValueDim), LSE: make([]float32, rows)}}
}

// decode computes the case with the given number of splits, 0 letting the plan
// choose.
func (d *decoder) decode(ctx context.Context, r *decoded, splits int, invariant bool) error {
	*r = decoded{Output: r.Output}
	for _, p := range d.c.inSteps(d.room, splits, invariant, d.engine.Info().QueryTile) {
		if err := d.step(ctx, r, p, splits, invariant); err != nil {
			return fmt.Errorf("%s: %w", d.c.path, err)
		}
	}
	return nil
}

// step computes a piece of the case.
func (d *decoder) step(ctx context.Context, r *decoded, p piece, splits int, invariant bool) error {
	batch := d.c.batch(p)
	batch.NumSplits, batch.Invariant = splits, invariant
	step, err := d.engine.Plan(batch)
	if err != nil {
		return err
	}
	out, lse := d.c.rowsIn(r.Out, p, d.c.shape.ValueDim), d.c.rowsIn(r.LSE, p, 1)
	start := time.Now()
	err = d.engine.Decode(ctx, step, d.c.rowsIn(d.c.q, p, d.c.shape.KeyDim), d.view(p, batch.Lens), &flashdec.Output{Out: out, LSE: lse})
	if err != nil {
		return err
	}
	r.seconds += time.Since(start).Seconds()
	if r.steps++; r.steps == 1 {
		r.reason = step.Plan().Reason
		r.woken = d.found.wakes(d.engine.Info(), batch.Shape, step.Plan())
	}
	r.splits = max(r.splits, step.Plan().MaxSplits())
	r.units += len(step.Plan().Units)
	r.items += len(step.Plan().Items)
	return nil
}

// view is the cache as a piece sees it.
func (d *decoder) view(p piece, lens []int) kv.View {
	view := d.cache.view
	view.Seqs = make([]kv.Table, p.seqs)
	for i, n := range lens {
		view.Seqs[i] = kv.Table{Pages: d.cache.view.Seqs[p.seq+i].Pages, Len: n}
	}
	return view
}
