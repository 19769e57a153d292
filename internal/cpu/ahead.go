package cpu

import "github.com/flashdec/flashdec/internal/simd"

// What is fetched while something else is worked on. A stream that walks alone leads
// each plane's reading by some rows. Streams side by side share the next tiles of all
// of them, in the order of memory, so that each fetches other streams' rows.

// longRead is how many bytes of a head's keys, and values, lie together where the hardware's prefetcher, which begins
// anew with each run, is left more of the work.
const longRead = 256 << 10 // docs/calibration.md

// lead lists the rows to fetch during a sweep of a stream that walks alone.
func (c *stream) lead() {
	k, v, shape, kernels := &c.job.k, &c.job.v, &c.job.launch.Shape, &c.job.kernels
	kLead, vLead := simd.Lead(kernels.k, shape.KeyDim, c.rows), simd.Lead(kernels.v, shape.ValueDim, c.rows)
	if c.job.longRuns {
		kLead = simd.LeadScores(kernels.k, shape.KeyDim, c.rows)
		vLead = simd.LeadSums(kernels.v, shape.ValueDim, c.rows)
	}
	this, next := &c.sweeps[0], &c.sweeps[1]
	c.leads[0] = c.leading(c.fetch[0], k, this.k, next.k, kLead)
	c.leads[1] = c.leads[0]
	if k.pitch != v.pitch || kLead != vLead {
		c.leads[1] = c.leading(c.fetch[1], v, this.v, next.v, vLead)
	}
}

// led is what to fetch of a plane during n tiles of a sweep of a stream that walks
// alone, from tile i on.
func (c *stream) led(p *plane, rows []int, i, n int) simd.Ahead {
	return simd.Ahead{Data: p.of(c.item.Head), Off: ofTiles(rows, i, n), Bytes: p.row}
}

// scoring is what the turn-th of the streams side by side fetches while scoring tile i
// of the sweep of keys [lo, hi): keys, and in the end the first values.
func (c *stream) scoring(turn, i, lo, hi int) simd.Ahead {
	if i+1 < tilesOf(hi-lo) {
		return c.beside(turn, &c.job.k, c.tile(i+1, lo, hi))
	}
	return c.beside(turn, &c.job.v, c.tile(0, lo, hi))
}

// summing is the same while summing tile i: values, and in the end the next keys.
func (c *stream) summing(turn, i, lo, hi int) simd.Ahead {
	if i+1 < tilesOf(hi-lo) {
		return c.beside(turn, &c.job.v, c.tile(i+1, lo, hi))
	}
	return c.beside(turn, &c.job.k, c.next)
}

// tile is tile i of the keys [lo, hi) of the streams that walk together.
func (w *worker) tile(i, lo, hi int) area {
	lo += i * simd.TileKeys
	return area{w.seq, w.walking[0].item.Head, len(w.walking), lo, min(lo+simd.TileKeys, hi)}
}

// beside is the turn-th stream's part of fetching a tile of all streams.
func (w *worker) beside(turn int, p *plane, a area) simd.Ahead {
	rows := w.rowsOf(w.fetch[0][:simd.TileKeys], p, &a, turn*simd.TileKeys)
	return simd.Ahead{Data: p.data, Off: rows, Bytes: p.row}
}

// leading fills off with the rows that lie lead rows ahead of this sweep's: the rest of
// this sweep, and the beginning of the next one, or of what follows. With no lead there are none.
func (c *stream) leading(off []int, p *plane, this, next []int, lead int) []int {
	if lead == 0 {
		return off[:0]
	}
	n := copy(off, this[min(lead, len(this)):])
	if len(next) > 0 {
		return off[:n+copy(off[n:], next[:min(lead, len(next))])]
	}
	a := c.next
	a.head -= c.item.Head // rows are counted from where this head's begin
	return off[:n+len(c.rowsOf(off[n:min(n+lead, len(off))], p, &a, 0))]
}
