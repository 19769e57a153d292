package main

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"slices"
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
	found   tuned   // constants of this machine
	chunks  []piece // of the case, one after the other
	room    int     // bytes that a step's plan and partial states may take
	living  int     // bytes: the case and its cache, and a chunk
	gogc    int     // the collector's percentage before
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
	c.roundsWeights = engine.Info().RoundsWeights(cache.view.V.Type, c.shape.GroupSize())
	d := &decoder{c: c, backend: b, engine: engine, cache: cache, room: stepRoom, chunks: c.inChunks(chunkRoom, engine.Info().QueryTile)}
	runtime.GC()
	var heap runtime.MemStats
	runtime.ReadMemStats(&heap)
	d.living = int(heap.HeapAlloc) + d.chunkBytes()
	d.gogc = debug.SetGCPercent(garbagePercent(d.living))
	return d, nil
}

func (d *decoder) close() error {
	debug.SetGCPercent(d.gogc)
	return errors.Join(d.cache.close(), d.engine.Close())
}

// chunkBytes is what the queries and the results of the largest chunk take.
func (d *decoder) chunkBytes() int { return d.chunks[0].seqs * d.chunks[0].queries * d.c.queryBytes() }

// garbagePercent is how much garbage the collector is to leave beside what lives:
// by its default as much again, here some megabytes. What lives is few large arrays
// without pointers, which cost it nothing to look at.
func garbagePercent(living int) int {
	const garbage, least = 24 << 20, 5
	return min(100, max(least, garbage/(living/100+1)))
}

// decoded is a chunk's result, and how it came about.
type decoded struct {
	piece            // the chunk
	q      []float32 // [seqs, queries, NumHeads, KeyDim] its queries
	buffer []float32 // that q lies in, unless it lies in the file
	*flashdec.Output
	work
}

// work is how the parts of a case that were decoded were cut, and what they took.
type work struct {
	steps        int // that the case was cut into
	splits       int // the most of any unit
	units, items int
	reason       string // for the first step's splits
	woken        woken  // for it
	seconds      float64
}

// add counts further parts.
func (w *work) add(more work) {
	if w.steps == 0 {
		w.reason, w.woken = more.reason, more.woken
	}
	w.steps += more.steps
	w.splits = max(w.splits, more.splits)
	w.units += more.units
	w.items += more.items
	w.seconds += more.seconds
}

// take reads a chunk's queries, and makes room for its results. r had another chunk, or
// none.
func (d *decoder) take(r *decoded, chunk piece) {
	if r.Output == nil {
		r.Output = &flashdec.Output{}
	}
	rows := chunk.seqs * chunk.queries * d.c.shape.NumHeads
	r.piece, r.work = chunk, work{}
	r.Out, r.LSE = resize(r.Out, rows*d.c.shape.ValueDim), resize(r.LSE, rows)
	if d.c.packed != nil {
		r.q = d.c.rowsIn(d.c.packed, d.c.whole(), chunk, d.c.shape.KeyDim)
		return
	}
	r.buffer = resize(r.buffer, rows*d.c.shape.KeyDim)
	r.q = r.buffer
	d.c.readQueries(r.q, chunk)
}

// resize is room for n numbers, whatever they were, in x where it has as much.
func resize(x []float32, n int) []float32 { return slices.Grow(x[:0], n)[:n] }

// decode computes the chunk with the given number of splits, 0 letting the plan
// choose.
func (d *decoder) decode(ctx context.Context, r *decoded, splits int, invariant bool) error {
	r.work = work{}
	for _, p := range d.c.inSteps(r.piece, d.room, splits, invariant, d.engine.Info().QueryTile) {
		for _, h := range d.c.inHeads(p, d.room, splits, invariant) {
			if err := d.step(ctx, r, p, h, splits, invariant); err != nil {
				return d.c.named(err)
			}
		}
	}
	return nil
}

// step computes some heads of a piece of the chunk.
func (d *decoder) step(ctx context.Context, r *decoded, p piece, h heads, splits int, invariant bool) error {
	batch := d.c.batch(p, h)
	batch.NumSplits, batch.Invariant, batch.KVBits = splits, invariant, d.cache.view.K.Type.Bits()
	step, err := d.engine.Plan(batch)
	if err != nil {
		return err
	}
	rows := func(packed []float32, dim int) []float32 {
		return d.c.rowsOfHeads(d.c.rowsIn(packed, r.piece, p, dim), h, dim)
	}
	out := &flashdec.Output{Out: rows(r.Out, d.c.shape.ValueDim), LSE: rows(r.LSE, 1)}
	start := time.Now()
	err = d.engine.Decode(ctx, step, rows(r.q, d.c.shape.KeyDim), d.view(p, h, batch.Lens), out)
	if err != nil {
		return err
	}
	done := work{
		steps: 1, splits: step.Plan().MaxSplits(), units: len(step.Plan().Units), items: len(step.Plan().Items), seconds: time.Since(start).Seconds(),
	}
	if r.steps == 0 {
		done.reason, done.woken = step.Plan().Reason, d.found.wakes(d.engine.Info(), batch.Shape, step.Plan())
	}
	r.add(done)
	return nil
}

// view is the cache as some heads of a piece see it.
func (d *decoder) view(p piece, h heads, lens []int) kv.View {
	view := d.cache.view
	view.NumKVHeads = h.n
	if h.first > 0 {
		for _, plane := range []*kv.Plane{&view.K, &view.V} {
			plane.Data = plane.Data[plane.Offset(0, h.first, 0):]
			if s := &plane.Scales; s.Kind == kv.TokenScale {
				s.Values = s.Values[s.Offset(0, h.first, 0):]
			}
		}
	}
	view.Seqs = make([]kv.Table, p.seqs)
	for i, n := range lens {
		view.Seqs[i] = kv.Table{Pages: d.cache.view.Seqs[p.seq+i].Pages, Len: n}
	}
	return view
}
