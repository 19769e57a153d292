package cpu

import (
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/internal/filemap"
	"github.com/flashdec/flashdec/internal/simd"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/plan"
)

// job is a launch being computed. Its buffers outlive it, for the next one. What changes while workers look at the rest
// lies on cache lines of its own.
type job struct {
	launch *backend.Launch
	done   <-chan struct{} // the context's

	tasks    []task         // what workers take, in the order of the plan
	stopped  atomic.Bool    // cancelled, and noticed
	left     []atomic.Int32 // [units] items not yet computed
	partials states         // [Plan.Rows]
	queries  []int          // [seqs] a sequence's first query among all
	k, v     plane
	scaled   bool // keys or values have a scale each
	longRuns bool // a head's keys, and its values, lie in runs of longRead or more
	kernels  kernels
	scales   []float32 // [sweepKeys] the scale, and what keys share of theirs, for scores of queries that lack it
	// sweepKeys is how many keys a sweep has, as the group has it, and nothing
	// else, so that nothing else decides what is rounded.
	sweepKeys int

	recorder  *recorder // nil: no trace is wanted
	recording recorder

	seats  []*worker // the caller's, then one for each helper that may come
	shares []share   // of the tasks, one a seat, or one of all

	_       [cacheLine]byte
	wants   int          // helpers wanted; this and the next are the pool's lock's
	joined  int          // helpers that came
	working atomic.Int32 // helpers that have not finished, to be looked at without waiting
	helping sync.WaitGroup
	_       [cacheLine]byte
}

// prepare makes the job ready for a launch on so many workers.
func (j *job) prepare(l *backend.Launch, done <-chan struct{}, lib *library, workers int) (err error) {
	if j.kernels, err = lib.kernels(&l.KV, l.Shape.GroupSize()); err != nil {
		return err
	}
	j.launch, j.done = l, done
	j.sweepKeys = simd.SweepKeys(l.Shape.GroupSize())
	if j.pairs() {
		j.scales = resize(j.scales, j.sweepKeys)
		for i := range j.scales {
			j.scales[i] = float32(j.lateScale())
		}
	}
	j.k, j.v = planeOf(&l.KV.K), planeOf(&l.KV.V)
	j.scaled = l.KV.K.Scales.Kind == kv.TokenScale || l.KV.V.Scales.Kind == kv.TokenScale
	j.longRuns = min(keyRun(&l.KV.K, l.KV.PageSize)*j.k.row, keyRun(&l.KV.V, l.KV.PageSize)*j.v.row) >= longRead
	j.stopped.Store(false)
	j.partials.resize(l.Plan.Rows, l.Shape.ValueDim)
	j.queries = resize(j.queries, len(l.Plan.Config.Seqs))
	first := 0
	for i := range l.Plan.Config.Seqs {
		j.queries[i] = first
		first += l.Plan.Config.Seqs[i].NumQueries
	}
	j.left = resize(j.left, len(l.Plan.Units))
	for i := range l.Plan.Units {
		j.left[i].Store(int32(l.Plan.Units[i].NumSplits))
	}
	j.handOut(workers)
	return nil
}

// seat makes places for the caller and the helpers, all as large as the largest
// task wants: a job that has run once has room for whoever computes what.
func (j *job) seat(helpers int) {
	p := j.launch.Plan
	heads, queries, beside := 0, 0, 0
	for i := range j.tasks {
		t := &j.tasks[i]
		n := p.Items[t.first].NumQueries
		heads, queries = max(heads, t.heads), max(queries, n)
		if t.heads > 1 {
			beside = max(beside, n)
		}
	}
	for len(j.seats) <= helpers {
		j.seats = append(j.seats, &worker{job: j, lane: len(j.seats)})
	}
	group := j.launch.Shape.GroupSize()
	rows := func(queries int) int { return min(queries, tileQueries(group)) * group }
	wanted := size{
		shape: j.launch.Shape, heads: heads, rows: rows(queries), rowsBeside: rows(beside), splits: p.MaxSplits(),
		sweepKeys: j.sweepKeys, pageSize: j.launch.KV.PageSize, keyBytes: j.k.row, valueBytes: j.v.row,
		scaled: j.scaled, pairs: j.kernels.pairScores != nil, integerK: j.kernels.integerK != nil, integerV: j.kernels.integerV != nil,
	}
	for _, w := range j.seats[:helpers+1] {
		if w.fault != nil {
			w.fault = nil
		}
		if w.size != wanted {
			w.reserve(wanted)
		}
	}
}

// leave lets go of the launch's memory and keeps the buffers.
func (j *job) leave() {
	j.launch, j.done, j.recording = nil, nil, recorder{}
	j.k, j.v = plane{}, plane{}
}

// HelperWork is how much work, in multiply-adds, makes a helper worth waking where
// [Options] do not say: some 50 microseconds of it at the fastest level, several
// times what the waking takes. BenchmarkDecode at 1024 keys shows the border.
const HelperWork = 1 << 21

// hotWork is how much less work is enough for a helper that need not be woken.
const hotWork = 2

// guestWork is the same for one who looks out for nothing else: some microseconds.
const guestWork = 16

// Helpers is how many workers a plan's items are worth, the caller not counted: one
// for each full perHelper of their work, as far as there are items. The work is
// their multiply-adds, counted no further than all threads are worth waking.
func Helpers(shape attn.Shape, items []plan.Item, threads, perHelper int) (helpers, work int) {
	most := min(threads, len(items)) - 1
	perKey := shape.GroupSize() * (shape.KeyDim + shape.ValueDim)
	for i := range items {
		if work/perHelper >= most {
			break
		}
		work += (items[i].End - items[i].Begin) * items[i].NumQueries * perKey
	}
	return max(min(most, work/perHelper), 0), work
}

// work computes tasks until none is left. One whose memory is that of a file that was cut short ends it, and
// is the worker's fault; the caller's seat has the units without an item, too.
func (j *job) work(w *worker) {
	defer w.letGo()
	defer filemap.Recover(&w.fault, debug.SetPanicOnFault(true))
	if w.lane == 0 {
		j.mergeEmpty(w)
	}
	for {
		t := j.take(w.lane)
		if t == nil {
			break
		}
		if !w.compute(t) {
			j.stopped.Store(true)
			break
		}
	}
}

// fault is the first error of those who worked, in the order of their seats.
func (j *job) fault(workers int) error {
	for _, w := range j.seats[:workers] {
		if w.fault != nil {
			return w.fault
		}
	}
	return nil
}

// finish notes that a split of the worker's task, begun at some time, is computed.
// Whoever finishes the last item of a unit merges the unit, so nobody waits between
// items and merges; splits are merged in the order of the plan, whoever computed
// them.
func (j *job) finish(w *worker, begin int64) {
	j.recorder.items(w.task, w.split, w.lane, begin)
	for h := range w.streams {
		unit := w.streams[h].item.Unit
		if j.left[unit].Add(-1) > 0 {
			continue
		}
		begin := j.recorder.now() // not before: another's item may have ended since ours did
		w.merge(&j.launch.Plan.Units[unit])
		j.recorder.merge(unit, w.lane, begin)
	}
}

// cancelled reports whether the decode is to stop.
func (j *job) cancelled() bool {
	if j.stopped.Load() {
		return true
	}
	select {
	case <-j.done:
		return true
	default:
		return false
	}
}

// place is the row of query × head that an item's or a unit's first row has in
// the launch's results.
func (j *job) place(seq, query, head int) int {
	return (j.queries[seq]+query)*j.launch.Shape.NumHeads + head*j.launch.Shape.GroupSize()
}
