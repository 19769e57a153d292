package cpu

import "github.com/flashdec/flashdec/internal/simd"

// What is fetched while something else is worked on. A stream that walks alone leads
// each plane's reading by some rows. Streams side by side share the next tiles of all
// of them, in the order of memory, so that each fetches other streams' rows.

// longRead is how many bytes of a head's keys, and values, lie together where the hardware's prefetcher, which begins
// anew with each run, is left more of the work.
const longRead = 256 << 10 // docs/calibration.md

// runBytes is what is listed at a time of rows that lie one behind the other and are fetched ahead: row by row, short rows
// would take as long to be fetched as to be scored.
const runBytes = 1 << 10 // docs/calibration.md

// leads is what a stream that walks alone fetches of a plane during a sweep.
type leads struct {
	runs  []int // where they begin, from where the stream's rows do
	bytes int   // of a run
}

// lead lists what to fetch during a sweep of the keys [lo, hi) of a stream that walks alone.
func (c *stream) lead(lo, hi int) {
	k, v, shape, kernels := &c.job.k, &c.job.v, &c.job.launch.Shape, &c.job.kernels
	kLead, vLead := simd.Lead(kernels.k, shape.KeyDim, c.rows), simd.Lead(kernels.v, shape.ValueDim, c.rows)
	if c.job.longRuns {
		kLead = simd.LeadScores(kernels.k, shape.KeyDim, c.rows)
		vLead = simd.LeadSums(kernels.v, shape.ValueDim, c.rows)
	}
	c.leads[0] = c.leading(c.fetch[0], k, lo, hi, kLead)
	c.leads[1] = c.leads[0]
	if k.row != v.row || k.pitch != v.pitch || kLead != vLead {
		c.leads[1] = c.leading(c.fetch[1], v, lo, hi, vLead)
	}
}

// led is what to fetch of a plane during n of so many tiles of a sweep of a stream that walks alone, from tile i on.
func (c *stream) led(p *plane, l *leads, i, n, tiles int) simd.Ahead {
	return simd.Ahead{Data: p.of(c.item.Head), Off: l.runs, Bytes: l.bytes}.Part(i, i+n, tiles)
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

// leading lists, in off, what lies lead rows ahead of a sweep of the keys [lo, hi): the rest of that sweep, and the
// beginning of the next one, or of what follows. With no lead it is nothing.
func (c *stream) leading(off []int, p *plane, lo, hi, lead int) leads {
	if lead == 0 {
		return leads{}
	}
	rows := p.rowsOfRun(c.job.launch.KV.PageSize)
	n := len(c.runsOf(off, p, &area{c.seq, 0, 1, min(lo+lead, hi), hi}, rows))
	a := c.next
	a.head -= c.item.Head // rows are counted from where this head's begin
	a.hi = min(a.hi, a.lo+lead)
	return leads{off[:n+len(c.runsOf(off[n:], p, &a, rows))], rows * p.row}
}

// rowsOfRun is how many rows of a head are listed at a time, of pages of so many.
func (p *plane) rowsOfRun(pageSize int) int {
	if p.pitch.slot != p.row {
		return 1
	}
	return max(min(runBytes/p.row, pageSize), 1)
}

// runsOf fills off with the byte offsets of an area's runs of so many rows, as far as there are, page by page. A page's
// last one may be shorter.
func (w *worker) runsOf(off []int, p *plane, a *area, rows int) []int {
	if rows == 1 {
		return w.rowsOf(off, p, a, 0)
	}
	n := 0
	for at := w.pages(a.seq, a.lo, a.hi); n < len(off) && at.next(); {
		begin, runs := int(at.page)*p.pitch.page+at.slot*p.row, (at.slots+rows-1)/rows
		for head := a.head; head < a.head+a.heads; head++ {
			part := off[n:min(n+runs, len(off))]
			evenly(part, begin+head*p.pitch.head, rows*p.row)
			n += len(part)
		}
	}
	return off[:n]
}
