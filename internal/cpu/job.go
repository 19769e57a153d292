package cpu

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/internal/simd"
	"github.com/flashdec/flashdec/kv"
)

// job is a launch being computed. Its buffers outlive it, for the next one.
type job struct {
	launch *backend.Launch
	done   <-chan struct{} // the context's

	next     atomic.Int64   // item to start next
	stopped  atomic.Bool    // cancelled, and noticed
	left     []atomic.Int32 // [units] items not yet computed
	partials states         // [Plan.Rows]
	queries  []int          // [seqs] a sequence's first query among all
	kernels  kernels

	wants   int // helpers wanted; the pool's lock guards it
	helping sync.WaitGroup
	caller  worker
}

// prepare makes the job ready for a launch.
func (j *job) prepare(l *backend.Launch, done <-chan struct{}) (err error) {
	if j.kernels, err = kernelsFor(&l.KV); err != nil {
		return err
	}
	j.launch, j.done = l, done
	j.next.Store(0)
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
	return nil
}

// kernels are the tile kernels for a cache's element types.
type kernels struct {
	k, v       simd.Elem
	scores     simd.ScoresFunc
	accumulate simd.AccumulateFunc
}

func kernelsFor(view *kv.View) (kernels, error) {
	k, err := elem(view.K.Type)
	if err != nil {
		return kernels{}, err
	}
	v, err := elem(view.V.Type)
	if err != nil {
		return kernels{}, err
	}
	return kernels{k, v, simd.Scores(k), simd.Accumulate(v)}, nil
}

// elem is the kernels' name of an element type.
func elem(t kv.DType) (simd.Elem, error) {
	switch t {
	case kv.F32:
		return simd.F32, nil
	case kv.F16:
		return simd.F16, nil
	case kv.BF16:
		return simd.BF16, nil
	}
	return 0, fmt.Errorf("cpu: %w: no kernel for elements of type %v", attn.ErrOption, t)
}

// helperWork is how much work, in multiply-adds, makes a helper worth waking:
// some ten microseconds of it, a few times what the waking takes.
const helperWork = 1 << 20

// helpers is how many workers the launch is worth, the caller not counted: one
// for each full perHelper of its work, as far as there are items.
func (j *job) helpers(threads, perHelper int) int {
	items := j.launch.Plan.Items
	most := min(threads, len(items)) - 1
	perKey := j.launch.Shape.GroupSize() * (j.launch.Shape.KeyDim + j.launch.Shape.ValueDim)
	work := 0
	for i := range items {
		if work/perHelper >= most {
			break
		}
		work += (items[i].End - items[i].Begin) * items[i].NumQueries * perKey
	}
	return max(min(most, work/perHelper), 0)
}

// work computes items until none is left. Whoever finishes the last item of a
// unit merges the unit, so nobody waits between items and merges; splits are
// merged in the order of the plan, whoever computed them.
func (j *job) work(w *worker) {
	w.job = j
	items := j.launch.Plan.Items
	for {
		i := int(j.next.Add(1)) - 1
		if i >= len(items) {
			break
		}
		if !w.compute(&items[i]) {
			j.stopped.Store(true)
			break
		}
		if unit := items[i].Unit; j.left[unit].Add(-1) == 0 {
			w.merge(&j.launch.Plan.Units[unit])
		}
	}
	w.leaveJob()
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
