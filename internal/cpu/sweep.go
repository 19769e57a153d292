package cpu

import "github.com/flashdec/flashdec/internal/simd"

// tile takes the keys [lo, hi), which tiles[0] lists, into the running sums; it is
// the turn-th of the streams that walk together. Queries that see the same of them
// are neighbours, and go together.
func (c *stream) tile(turn, lo, hi int) {
	c.scales(&c.tiles[0], lo, hi)
	scoring, summing := c.ahead(turn)
	if c.rows == c.group() && c.job.launch.Options.Mask == nil { // one query sees what is walked
		c.attend(0, c.rows, c.tiles[0], scoring, summing)
		return
	}
	group := c.group()
	n := c.rows / group
	for i := 0; i < n; {
		from, to := c.within(i, lo, hi)
		end := i + 1
		if c.job.launch.Options.Mask == nil {
			for end < n && c.seesToo(end, lo, hi, from, to) {
				end++
			}
		}
		if part := c.part(i, lo, from, to); len(part.k) > 0 {
			c.attend(i*group, (end-i)*group, part, scoring, summing)
			scoring, summing = simd.Ahead{}, simd.Ahead{}
		}
		i = end
	}
}

// outermost finds the first and the last key of [lo, hi) that each query of the
// tile sees: biases are relative to them.
func (c *stream) outermost(lo, hi int) {
	if c.score.slopes == nil {
		return
	}
	mask := c.job.launch.Options.Mask
	for i := range c.rows / c.group() {
		from, to := c.within(i, lo, hi)
		if mask != nil {
			length := c.job.launch.Plan.Config.Seqs[c.seq].Len
			first, visible := mask.Row(c.seq, c.query+i, length, from, to)
			for to > first && visible[to-1-first] == 0 {
				to--
			}
			if first == from { // else keys before the mask's are all seen
				for from < to && visible[from-first] == 0 {
					from++
				}
			}
		}
		c.score.first[i], c.score.last[i] = from, to-1
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
	length := w.job.launch.Plan.Config.Seqs[w.seq].Len
	first, visible := mask.Row(w.seq, w.query+i, length, from, to)
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
func (c *stream) attend(first, rows int, t tile, scoring, summing simd.Ahead) {
	shape := &c.job.launch.Shape
	values := simd.Tile{Data: c.job.v.of(c.item.Head), Off: t.v}
	s := c.s[:rows*simd.TileKeys]
	c.scores(s, first, rows, &t, scoring)
	if !c.score.plain() {
		for r := range rows {
			c.score.apply(s[r*simd.TileKeys:][:len(t.k)], first+r, t.pos)
		}
	}
	alpha := c.alpha[:rows]
	hidden := simd.Softmax(s, simd.TileKeys, rows, len(t.k), c.m[first:], c.l[first:], alpha)
	c.comeDown(first, rows, t.vScale)
	c.scaleWeights(s, first, rows, len(t.k), t.vScale)
	o := c.o[first*shape.ValueDim:]
	if hidden { // a score of −Inf, though visible: it has no weight, so no value
		simd.AccumulateVisible(c.job.kernels.v, o, rows, shape.ValueDim, s, simd.TileKeys, alpha, values, summing)
		return
	}
	c.accumulate(o, rows, s, alpha, values, len(t.vScale) > 0, summing)
}

// scores computes the scores of rows [first, first + rows) with the keys of t, in fixed
// point where that is exact enough.
func (c *stream) scores(s []float32, first, rows int, t *tile, ahead simd.Ahead) {
	dim, kernels := c.job.launch.Shape.KeyDim, &c.job.kernels
	keys := simd.Tile{Data: c.job.k.of(c.item.Head), Off: t.k}
	if integer := kernels.integerK; integer != nil &&
		integer.Scores(s, simd.TileKeys, c.digits[first*simd.DigitsBytes(dim):], rows, dim, keys, t.kScale, c.most, ahead) {
		return
	}
	kernels.scores(s, simd.TileKeys, c.q[first*dim:], rows, dim, keys, ahead)
	simd.ScaleScores(s, simd.TileKeys, rows, t.kScale)
}

// accumulate adds a tile's weighted values to o, in fixed point as far as that is exact
// enough. own says that values have scales of their own.
func (c *stream) accumulate(o []float32, rows int, p, alpha []float32, values simd.Tile, own bool, ahead simd.Ahead) {
	dim, kernels, done := c.job.launch.Shape.ValueDim, &c.job.kernels, 0
	if integer := kernels.integerV; integer != nil {
		done = integer.Accumulate(o, rows, dim, p, simd.TileKeys, alpha, values, own, ahead)
	}
	if done < rows {
		kernels.accumulate(o[done*dim:], rows-done, dim, p[done*simd.TileKeys:], simd.TileKeys, alpha[done:], values, ahead)
	}
}

// ahead is what to fetch during a tile's first step. A stream that walks alone leads
// each plane's reading by some rows. Streams side by side share the next tiles of all
// of them, keys while scoring and values while summing, in the order of memory, so
// that each fetches other streams' rows.
func (c *stream) ahead(turn int) (scoring, summing simd.Ahead) {
	k, v := &c.job.k, &c.job.v
	c.fetchScales(turn)
	if len(c.walking) == 1 {
		shape, kernels := &c.job.launch.Shape, &c.job.kernels
		kLead, vLead := simd.Lead(kernels.k, shape.KeyDim, c.rows), simd.Lead(kernels.v, shape.ValueDim, c.rows)
		rows := c.leading(c.fetch[0][:], k, c.tiles[0].k, c.tiles[1].k, kLead)
		scoring = simd.Ahead{Data: k.of(c.item.Head), Off: rows, Bytes: k.row}
		if k.pitch != v.pitch || kLead != vLead {
			rows = c.leading(c.fetch[1][:], v, c.tiles[0].v, c.tiles[1].v, vLead)
		}
		return scoring, simd.Ahead{Data: v.of(c.item.Head), Off: rows, Bytes: v.row}
	}
	from := turn * simd.TileKeys
	rows := c.rowsOf(c.fetch[0][:], k, &c.next, from)
	scoring = simd.Ahead{Data: k.data, Off: rows, Bytes: k.row}
	if k.pitch != v.pitch {
		rows = c.rowsOf(c.fetch[1][:], v, &c.next, from)
	}
	return scoring, simd.Ahead{Data: v.data, Off: rows, Bytes: v.row}
}

// leading fills off with the rows that lie lead rows ahead of this tile's: the rest of
// this tile, and the beginning of the next one, or of what follows.
func (c *stream) leading(off []int, p *plane, this, next []int, lead int) []int {
	n := copy(off, this[min(lead, len(this)):])
	if len(next) > 0 {
		return off[:n+copy(off[n:], next[:min(lead, len(next))])]
	}
	a := c.next
	a.head -= c.item.Head // rows are counted from where this head's begin
	return off[:n+len(c.rowsOf(off[n:min(n+lead, len(off))], p, &a, 0))]
}
