package cpu

import (
	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/internal/simd"
)

const (
	// queryTile and tileRows are how many queries, and how many rows, share the
	// loading of a tile: enough that a prompt reads its cache seldom, few enough
	// that outputs of dim 128 (64 KB) stay in a core's cache beside the tile.
	queryTile = 16
	tileRows  = 128

	// chunkTiles is how many tiles are summed in float32 before the sum becomes a
	// state. Rounding a sum of n equal terms loses up to n·2⁻²⁵ of it, so a chunk's
	// error is at most (TileKeys + chunkTiles)·2⁻²⁵ = 3.8e-6 of the largest |v|,
	// however long the split: merging states averages them, in float64.
	chunkTiles = 64
	chunkKeys  = chunkTiles * simd.TileKeys

	// chunksPerMerge is how many chunks' states one merge weighs together: it
	// spreads the merge's divisions over them.
	chunksPerMerge = 8
)

// tileQueries is how many queries a tile takes of groups of that size.
func tileQueries(group int) int { return max(min(queryTile, tileRows/group), 1) }

// worker is one goroutine's place at a job: its task, and buffers to work in.
type worker struct {
	job   *job
	lane  int // its seat's number
	task  *task
	split int // of the task, under way
	seq   int
	query int  // the query tile's first query, counted within the sequence
	rows  int  // queries of the tile × group
	end   int  // where the keys end that the query tile sees of the split
	only  bool // it sees one chunk of them
	fault error
	size  size // of its buffers

	streams []stream // of the task's KV heads
	walking []stream // those whose keys are being walked: all, or one once more
	sweeps  [2]sweep // this sweep's keys, and the next one's
	next    area     // what the next sweep holds, or the first of another split or task

	// Of the streams side by side: where those of a stream begin is roomBeside rows
	// behind those of the stream before it.
	roomBeside int
	aside      int        // how many rows of o there are before those that are put aside
	q          []float32  // [rows, KeyDim] see stream
	pairs      []float32  // [rows, KeyDim], of which half is used where keys are bfloat16
	o          []float32  // [rows, ValueDim], and once more for sums that are put aside
	s          []float32  // [rows, stride]
	alpha      []float32  // [rows]
	besides    [2]besides // keys, and values

	// Buffers, for as many rows as the largest query tile of the launch has.
	ones     []float32             // [rows of all streams]
	fetch    [2][]int              // [sweepKeys] what to fetch while scoring, and while summing
	leads    [2]leads              // the same of a stream that walks alone, in a sweep
	lines    [2][]int              // [≤ sweepKeys] scales of keys and of values to fetch, see listScales
	visible  sweep                 // keys of this sweep that a mask leaves
	list     []attn.State[float32] // to merge
	weight   []float64             // [len(list)] what its states weigh
	averaged [][]float32           // and what is averaged of them
	room     []stream              // for the most heads of any task
}

// size is what a worker's buffers depend on. Launches that follow one another, as those of a model's layers do, seldom
// differ in it, and places that are left alone stay in the caches of those who work there.
type size struct {
	shape                attn.Shape
	heads                int // of a task
	rows, rowsBeside     int // of a query tile, and of one of tasks of several heads
	splits               int // of a unit
	sweepKeys, pageSize  int
	keyBytes, valueBytes int // of a row

	scaled, pairs, integerK, integerV bool
}

// reserve makes room for the largest task of the launch, and the largest unit.
func (w *worker) reserve(s size) {
	w.size = s
	shape, all := &s.shape, max(s.rows, s.heads*s.rowsBeside)
	w.roomBeside = s.rowsBeside
	w.q, w.s, w.alpha, w.ones = resize(w.q, all*shape.KeyDim), resize(w.s, all*w.job.stride()), resize(w.alpha, all), resize(w.ones, all)
	if s.pairs {
		w.pairs = resize(w.pairs, all*shape.KeyDim)
	}
	w.aside = all
	w.o = resize(w.o, (all+s.heads*s.rowsBeside)*shape.ValueDim)
	if s.heads > 1 {
		w.besides[0].reserve(w.job, &w.job.k, s.heads)
		w.besides[1].reserve(w.job, &w.job.v, s.heads)
	}
	for r := range w.ones {
		w.ones[r] = 1
	}
	states := max(s.splits, chunksPerMerge) + 1 // and a sink
	w.list, w.weight, w.averaged = resize(w.list, states), resize(w.weight, states), resize(w.averaged, states)
	for _, t := range [...]*sweep{&w.sweeps[0], &w.sweeps[1], &w.visible} {
		t.reserve(s.sweepKeys)
	}
	for i := range w.lines {
		w.lines[i], w.fetch[i] = resize(w.lines[i], s.sweepKeys), resize(w.fetch[i], s.sweepKeys)
	}
	for len(w.room) < s.heads {
		w.room = append(w.room, stream{})
	}
	rows := s.rows
	for h := range w.room[:s.heads] {
		w.room[h].worker = w
		w.room[h].reserve(rows, h*s.rowsBeside)
		rows = s.rowsBeside
	}
}

// letGo lets go of the launch's memory and keeps the buffers.
func (w *worker) letGo() {
	for h := range w.room {
		w.room[h].item, w.room[h].rules = nil, scorer{}
	}
	clear(w.list[:cap(w.list)])
	clear(w.averaged[:cap(w.averaged)])
}

// compute computes the states of a task's items, split by split. False: the decode
// is cancelled.
func (w *worker) compute(t *task) bool {
	w.task, w.streams = t, w.room[:t.heads]
	tile := tileQueries(w.group())
	for w.split = range t.splits {
		begin := w.job.recorder.now()
		for h := range w.streams {
			w.streams[h].item = &w.job.launch.Plan.Items[t.item(h, w.split)]
		}
		it := w.streams[0].item
		w.seq = it.Seq
		for i := 0; i < it.NumQueries; i += tile {
			if w.split == 0 || it.NumQueries > tile {
				w.begin(it.Query+i, min(tile, it.NumQueries-i))
			}
			if !w.walk() {
				return false
			}
			for h := range w.streams {
				w.streams[h].leave(i)
			}
		}
		w.job.finish(w, begin)
	}
	return true
}

// begin takes up n queries of the task.
func (w *worker) begin(query, n int) {
	w.query, w.rows = query, n*w.group()
	for h := range w.streams {
		w.streams[h].begin()
	}
}

// walk takes the split's keys in chunks.
func (w *worker) walk() bool {
	lo, hi := w.span()
	w.end, w.only = hi, lo < hi && hi-lo <= chunkKeys
	for ; lo < hi; lo += chunkKeys {
		if !w.chunk(lo, min(lo+chunkKeys, hi)) {
			return false
		}
	}
	return true
}

// span is the range of the split's keys that any query of the tile sees.
func (w *worker) span() (lo, hi int) {
	it := w.streams[0].item
	first, _ := w.sees(0)
	_, last := w.sees(w.rows/w.group() - 1)
	return max(first, it.Begin), min(last, it.End)
}

// sees is the range of keys that causality and the window leave to the tile's
// query i. Later queries see neither earlier first keys nor earlier last ones.
func (w *worker) sees(i int) (lo, hi int) {
	s := &w.job.launch.Plan.Config.Seqs[w.seq]
	return w.job.launch.Options.Span(s.Len, s.NumQueries, w.query+i)
}

func (w *worker) group() int { return w.job.launch.Shape.GroupSize() }

// chunk computes the states of the keys [lo, hi), at most chunkKeys. Where a sum
// overflows, which only values above 8e34 or so can bring about, it is taken again
// in a smaller unit, and in a larger one where it is among the subnormals or near
// them, as that of values below 3e-36 or so is, unless they are all zero.
func (w *worker) chunk(lo, hi int) bool {
	for h := range w.streams {
		w.streams[h].outermost(lo, hi)
	}
	if !w.sum(w.streams, lo, hi, w.firstUnit(), false) {
		return false
	}
	for h := range w.streams {
		c := &w.streams[h]
		if c.doubtful() && !w.sum(w.streams[h:h+1], lo, hi, w.firstUnit(), true) {
			return false
		}
		dst, row := c.place()
		overflowed, sank := c.states(dst, row)
		if overflowed {
			if !w.sum(w.streams[h:h+1], lo, hi, lower, true) {
				return false
			}
			c.mend(dst, row)
		}
		if sank && !c.onlyZeros(lo, hi) {
			if !w.sum(w.streams[h:h+1], lo, hi, lift, true) {
				return false
			}
			c.raise(dst, row)
		}
		if c.finished++; c.finished == chunksPerMerge {
			c.fold()
		}
	}
	return true
}

// sum takes the keys [lo, hi) into the sums of some streams, which begin in a unit; if it is
// to be plain, by kernels that know all numbers.
func (w *worker) sum(streams []stream, lo, hi int, unit float32, plain bool) bool {
	w.walking = streams
	for h := range streams {
		streams[h].clear(unit, plain)
	}
	w.gather(&w.sweeps[0], lo, min(lo+w.job.sweepKeys, hi))
	for lo < hi {
		if w.job.cancelled() {
			return false
		}
		next := min(lo+w.job.sweepKeys, hi)
		w.gather(&w.sweeps[1], next, min(next+w.job.sweepKeys, hi))
		w.next = w.following(next, hi)
		if w.job.scaled {
			w.lines[0] = w.listScales(w.lines[0], &w.job.launch.KV.K.Scales)
			w.lines[1] = w.listScales(w.lines[1], &w.job.launch.KV.V.Scales)
		}
		w.sweep(lo, next)
		w.sweeps[0], w.sweeps[1] = w.sweeps[1], w.sweeps[0]
		lo = next
	}
	return true
}
