package cpu

import (
	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/internal/simd"
	"github.com/flashdec/flashdec/plan"
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

// worker is one goroutine's place at a job: its item, and buffers to work in.
// Row r of a query tile is query r / group with query head head·group + r mod group.
type worker struct {
	job   *job
	lane  int // its seat's number
	item  *plan.Item
	query int // the tile's first query, counted within the sequence
	rows  int // queries of the tile × group

	score scorer
	fetch bool // nobody has fetched ahead for this tile yet
	end   int  // where the keys end that the query tile sees of its item

	// Buffers, for as many rows as the largest tile of the launch has.
	q        []float32 // [rows, KeyDim] times the scale, and those that keys share
	s        []float32 // [rows, TileKeys] scores, then weights
	m        []float32 // [rows] this and the next two: the running chunk
	l        []float32 // [rows]
	alpha    []float32 // [rows]
	o        []float32 // [rows, ValueDim] numerators, in units
	unit     []float32 // [rows] see lift and lower
	tiles    [2]tile   // this tile, and the next
	next     []int     // [TileKeys] see following
	visible  tile      // keys of this tile that a mask leaves
	chunks   states    // [chunksPerMerge, rows] states of finished chunks
	finished int       // how many
	list     []attn.State[float32]
}

// reserve makes room for tiles of that many rows, and units of that many splits.
func (w *worker) reserve(rows, splits int) {
	shape := &w.job.launch.Shape
	w.q = resize(w.q, rows*shape.KeyDim)
	w.s = resize(w.s, rows*simd.TileKeys)
	w.m = resize(w.m, rows)
	w.l = resize(w.l, rows)
	w.alpha = resize(w.alpha, rows)
	w.o = resize(w.o, rows*shape.ValueDim)
	w.unit = resize(w.unit, rows)
	w.chunks.resize(chunksPerMerge*rows, shape.ValueDim)
	w.list = resize(w.list, max(splits, chunksPerMerge)+1) // and a sink
	w.next = resize(w.next, simd.TileKeys)
	for _, t := range [...]*tile{&w.tiles[0], &w.tiles[1], &w.visible} {
		t.resize(simd.TileKeys)
	}
}

// compute computes an item's states. False: the decode is cancelled.
func (w *worker) compute(it *plan.Item) bool {
	w.item = it
	step := tileQueries(w.group())
	for i := 0; i < it.NumQueries; i += step {
		w.begin(it.Query+i, min(step, it.NumQueries-i))
		lo, hi := w.span()
		w.end = hi
		for ; lo < hi; lo += chunkKeys {
			if !w.chunk(lo, min(lo+chunkKeys, hi)) {
				return false
			}
		}
		w.leave(i)
	}
	return true
}

// begin takes up n queries of the item.
func (w *worker) begin(query, n int) {
	l := w.job.launch
	group := l.Shape.GroupSize()
	w.query, w.rows, w.finished = query, n*group, 0
	w.score.begin(l.Options, l.Shape, w.item.Head)
	first := w.job.place(w.item.Seq, query, w.item.Head)
	for i := range n {
		from := l.Q[(first+i*l.Shape.NumHeads)*l.Shape.KeyDim:][:group*l.Shape.KeyDim]
		w.scaledQueries(w.q[i*len(from):][:len(from)], from)
	}
}

// span is the range of the item's keys that any query of the tile sees.
func (w *worker) span() (lo, hi int) {
	first, _ := w.sees(0)
	_, last := w.sees(w.rows/w.group() - 1)
	return max(first, w.item.Begin), min(last, w.item.End)
}

// sees is the range of keys that causality and the window leave to the tile's
// query i. Later queries see neither earlier first keys nor earlier last ones.
func (w *worker) sees(i int) (lo, hi int) {
	s := &w.job.launch.Plan.Config.Seqs[w.item.Seq]
	return w.job.launch.Options.Span(s.Len, s.NumQueries, w.query+i)
}

func (w *worker) group() int { return w.job.launch.Shape.GroupSize() }

// chunk computes the states of the keys [lo, hi), at most chunkKeys. Where a sum
// overflows, which only values above 8e34 or so can bring about, it is taken again
// in a smaller unit.
func (w *worker) chunk(lo, hi int) bool {
	w.outermost(lo, hi)
	if !w.sum(lo, hi, w.firstUnit()) {
		return false
	}
	if overflowed := w.states(); overflowed {
		if !w.sum(lo, hi, lower) {
			return false
		}
		w.mend()
	}
	if w.finished++; w.finished == chunksPerMerge {
		w.fold()
	}
	return true
}

// sum takes the keys [lo, hi) into m, l and o, which begins in a unit.
func (w *worker) sum(lo, hi int, unit float32) bool {
	for r := range w.rows {
		w.m[r], w.l[r], w.unit[r] = float32(negInf), 0, unit
	}
	w.gather(&w.tiles[0], lo, min(lo+simd.TileKeys, hi))
	for lo < hi {
		if w.job.cancelled() {
			return false
		}
		next := min(lo+simd.TileKeys, hi)
		w.gather(&w.tiles[1], next, min(next+simd.TileKeys, hi))
		w.tile(lo, next)
		w.tiles[0], w.tiles[1] = w.tiles[1], w.tiles[0]
		lo = next
	}
	return true
}

// states turns the running sums into a chunk's states, dividing once. It reports
// averages that are not finite though their weights are.
func (w *worker) states() (overflowed bool) {
	dim := w.chunks.dim
	for r := range w.rows {
		i := w.finished*w.rows + r
		l := w.l[r]
		w.chunks.m[i] = float64(w.m[r]) + w.score.shift(r, w.position(r))
		w.chunks.l[i] = float64(l)
		if l == 0 {
			continue // no key: an empty state's o is never read
		}
		o := w.chunks.o[i*dim:][:dim]
		divide(o, w.o[r*dim:][:dim], l)
		if x := w.toValues(r); x != 1 {
			multiply(o, x)
		}
		overflowed = overflowed || finite(l) && !allFinite(o)
	}
	return overflowed
}

// mend takes the averages that are not finite from the running sums, which began
// in another unit. Values that are not finite themselves change nothing there.
func (w *worker) mend() {
	dim := w.chunks.dim
	for r := range w.rows {
		o := w.chunks.o[(w.finished*w.rows+r)*dim:][:dim]
		for d, x := range o {
			if w.l[r] != 0 && !finite(x) {
				o[d] = w.o[r*dim+d] / w.l[r] * w.toValues(r)
			}
		}
	}
}

func finite(x float32) bool { return x-x == 0 }

func allFinite(o []float32) bool {
	for _, x := range o {
		if !finite(x) {
			return false
		}
	}
	return true
}

// divide is o = a / l: a division, not a reciprocal, by which an average of ones
// would not be one.
func divide(o, a []float32, l float32) {
	for d, x := range a[:len(o)] {
		o[d] = x / l
	}
}

// position is where row r's query stands.
func (w *worker) position(r int) int {
	s := &w.job.launch.Plan.Config.Seqs[w.item.Seq]
	return s.Len - s.NumQueries + w.query + r/w.group()
}
