package cpu

import "github.com/flashdec/flashdec/internal/simd"

// tile takes the keys [lo, hi), which w.tiles[0] lists, into the running sums.
// Queries that see the same of them are neighbours, and go together.
func (w *worker) tile(lo, hi int) {
	w.fetch = true
	group := w.group()
	n := w.rows / group
	for i := 0; i < n; {
		from, to := w.within(i, lo, hi)
		end := i + 1
		if w.job.launch.Options.Mask == nil {
			for end < n && w.seesToo(end, lo, hi, from, to) {
				end++
			}
		}
		if part := w.part(i, lo, from, to); len(part.k) > 0 {
			w.attend(i*group, (end-i)*group, part)
		}
		i = end
	}
}

// outermost finds the first and the last key of [lo, hi) that each query of the
// tile sees: biases are relative to them.
func (w *worker) outermost(lo, hi int) {
	if w.score.slopes == nil {
		return
	}
	mask := w.job.launch.Options.Mask
	for i := range w.rows / w.group() {
		from, to := w.within(i, lo, hi)
		if mask != nil {
			length := w.job.launch.Plan.Config.Seqs[w.item.Seq].Len
			first, visible := mask.Row(w.item.Seq, w.query+i, length, from, to)
			for to > first && visible[to-1-first] == 0 {
				to--
			}
			if first == from { // else keys before the mask's are all seen
				for from < to && visible[from-first] == 0 {
					from++
				}
			}
		}
		w.score.first[i], w.score.last[i] = from, to-1
	}
}

// within is the range of the keys [lo, hi) that query i sees, a mask aside.
func (w *worker) within(i, lo, hi int) (from, to int) {
	from, to = w.sees(i)
	from = min(max(from, lo), hi)
	return from, min(max(to, from), hi)
}

// seesToo reports whether query i sees just the keys [from, to) of [lo, hi), too.
func (w *worker) seesToo(i, lo, hi, from, to int) bool {
	f, t := w.within(i, lo, hi)
	return f == from && t == to
}

// part lists the keys [from, to) of the tile, which begins at lo, without those
// that a mask hides from query i.
func (w *worker) part(i, lo, from, to int) tile {
	t := w.tiles[0].slice(from-lo, to-lo)
	mask := w.job.launch.Options.Mask
	if mask == nil {
		return t
	}
	length := w.job.launch.Plan.Config.Seqs[w.item.Seq].Len
	first, visible := mask.Row(w.item.Seq, w.query+i, length, from, to)
	v := &w.visible
	v.resize(0)
	v.add(&t, 0, first-from)
	for j, see := range visible {
		if see != 0 {
			v.add(&t, first-from+j, first-from+j+1)
		}
	}
	return *v
}

// attend is the tile step of rows [first, first + rows), all of which see all
// keys of t: scores, softmax, accumulation.
func (w *worker) attend(first, rows int, t tile) {
	shape, view := &w.job.launch.Shape, &w.job.launch.KV
	keys := simd.Tile{Data: view.K.Data, Off: t.k}
	values := simd.Tile{Data: view.V.Data, Off: t.v}
	thisV, nextK := w.ahead()
	s := w.s[:rows*simd.TileKeys]
	w.job.kernels.scores(s, simd.TileKeys, w.q[first*shape.KeyDim:], rows, shape.KeyDim, keys, thisV)
	simd.ScaleScores(s, simd.TileKeys, rows, t.kScale)
	if !w.score.plain() {
		for r := range rows {
			w.score.apply(s[r*simd.TileKeys:][:len(t.k)], first+r, t.pos)
		}
	}
	alpha := w.alpha[:rows]
	hidden := simd.Softmax(s, simd.TileKeys, rows, len(t.k), w.m[first:], w.l[first:], alpha)
	w.comeDown(first, rows, t.vScale)
	w.scaleWeights(s, first, rows, len(t.k), t.vScale)
	o := w.o[first*shape.ValueDim:]
	if hidden { // a score of −Inf, though visible: it has no weight, so no value
		simd.AccumulateVisible(w.job.kernels.v, o, rows, shape.ValueDim, s, simd.TileKeys, alpha, values, nextK)
		return
	}
	w.job.kernels.accumulate(o, rows, shape.ValueDim, s, simd.TileKeys, alpha, values, nextK)
}

// ahead is what to fetch during the tile's first step: its values while scoring,
// the next tile's keys while accumulating.
func (w *worker) ahead() (thisV, nextK simd.Ahead) {
	if !w.fetch {
		return simd.Ahead{}, simd.Ahead{}
	}
	w.fetch = false
	view, kernels := &w.job.launch.KV, &w.job.kernels
	thisV = simd.Ahead{Data: view.V.Data, Off: w.tiles[0].v, Bytes: kernels.v.RowBytes(view.V.Dim)}
	next := w.tiles[1].k
	if len(next) == 0 {
		next = w.following(w.tiles[0].pos[len(w.tiles[0].pos)-1] + 1)
	}
	nextK = simd.Ahead{Data: view.K.Data, Off: next, Bytes: kernels.k.RowBytes(view.K.Dim)}
	return thisV, nextK
}
