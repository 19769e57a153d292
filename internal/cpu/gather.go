package cpu

import "github.com/flashdec/flashdec/kv"

// sweep lists the keys of a sweep: where their rows begin in the planes' data, in
// bytes, and their positions; and their own scales, if they have any.
type sweep struct {
	k, v, pos      []int
	kScale, vScale []float32
}

// reserve makes room for up to n keys.
func (t *sweep) reserve(n int) {
	t.k, t.v, t.pos = resize(t.k, n), resize(t.v, n), resize(t.pos, n)
	t.kScale, t.vScale = resize(t.kScale, n)[:0], resize(t.vScale, n)[:0]
}

// resize makes it a list of n keys, for which there is room, without scales.
func (t *sweep) resize(n int) {
	t.k, t.v, t.pos = t.k[:n], t.v[:n], t.pos[:n]
	t.kScale, t.vScale = t.kScale[:0], t.vScale[:0]
}

// slice is the sweep's keys [lo, hi), counted within the sweep.
func (t *sweep) slice(lo, hi int) sweep {
	return sweep{t.k[lo:hi], t.v[lo:hi], t.pos[lo:hi], sliceAny(t.kScale, lo, hi), sliceAny(t.vScale, lo, hi)}
}

// sliceAny is s[lo:hi], of nothing nothing.
func sliceAny(s []float32, lo, hi int) []float32 {
	if len(s) == 0 {
		return s
	}
	return s[lo:hi]
}

// add appends the keys [lo, hi) of another sweep.
func (t *sweep) add(from *sweep, lo, hi int) {
	t.k = append(t.k, from.k[lo:hi]...)
	t.v = append(t.v, from.v[lo:hi]...)
	t.pos = append(t.pos, from.pos[lo:hi]...)
	t.kScale = append(t.kScale, sliceAny(from.kScale, lo, hi)...)
	t.vScale = append(t.vScale, sliceAny(from.vScale, lo, hi)...)
}

// gather lists the keys [lo, hi) of the sequence in the first KV head; those of
// another lie as far behind as its data begin. Page table entries that these keys
// do not need are not read.
func (w *worker) gather(t *sweep, lo, hi int) {
	t.resize(hi - lo)
	a := area{seq: w.seq, heads: 1, lo: lo, hi: hi}
	w.rowsOf(t.k, &w.job.k, &a, 0)
	if w.job.k.pitch == w.job.v.pitch {
		copy(t.v, t.k)
	} else {
		w.rowsOf(t.v, &w.job.v, &a, 0)
	}
	if w.job.launch.Options.Slopes == nil {
		return // nobody asks where keys stand
	}
	for i := range t.pos {
		t.pos[i] = lo + i
	}
}

// plane is where keys, or values, lie, in bytes.
type plane struct {
	data  []byte
	row   int // size of a row
	pitch struct{ page, head, slot int }
}

func planeOf(p *kv.Plane) plane {
	x := plane{data: p.Data, row: p.RowBytes()}
	x.pitch.page, x.pitch.head, x.pitch.slot = p.Offset(1, 0, 0), p.Offset(0, 1, 0), p.Offset(0, 0, 1)
	return x
}

// of is the data from where a KV head's rows begin.
func (p *plane) of(head int) []byte { return p.data[head*p.pitch.head:] }

// listKeys lists the keys [lo, hi) of the sweep under way for the stream's KV head: with
// their scales, if each has one.
func (c *stream) listKeys(lo, hi int) {
	c.keys = c.sweeps[0]
	if !c.job.scaled {
		return // what gathering has left are none
	}
	view := &c.job.launch.KV
	c.keys.kScale = c.tokenScales(c.kScale, &view.K, lo, hi)
	c.keys.vScale = c.tokenScales(c.vScale, &view.V, lo, hi)
}

// tokenScales fills dst with the scales of the keys [lo, hi), if each has one.
func (c *stream) tokenScales(dst []float32, p *kv.Plane, lo, hi int) []float32 {
	if p.Scales.Kind != kv.TokenScale {
		return dst[:0]
	}
	dst = dst[:hi-lo]
	rest := dst
	for at := c.pages(c.seq, lo, hi); at.next(); rest = rest[at.slots:] {
		tokenScales(rest[:at.slots], &p.Scales, at.page, c.item.Head, at.slot)
	}
	return dst
}

// area is the keys [lo, hi) of some KV heads of a sequence.
type area struct{ seq, head, heads, lo, hi int }

// rowsOf fills off with the byte offsets of an area's rows, from row number from on,
// as far as there are: page by page, and within a page in the order of memory.
func (w *worker) rowsOf(off []int, p *plane, a *area, from int) []int {
	n := 0
	for at := w.pages(a.seq, a.lo, a.hi); n < len(off) && at.next(); {
		// A page is stretches of rows at even distances: a head's, or a slot's.
		stretches, length, far, near := a.heads, at.slots, p.pitch.head, p.pitch.slot
		if far < near {
			stretches, length, far, near = length, stretches, near, far
		}
		base := int(at.page)*p.pitch.page + a.head*p.pitch.head + at.slot*p.pitch.slot
		i, j := 0, 0
		if from > 0 {
			i, j = from/length, from%length
			from = max(from-stretches*length, 0)
		}
		for ; i < stretches && n < len(off); i++ {
			part := off[n:min(n+length-j, len(off))]
			evenly(part, base+i*far+j*near, near)
			n += len(part)
			j = 0
		}
	}
	return off[:n]
}

// evenly fills off with numbers from a first one on, at even distances.
func evenly(off []int, first, step int) {
	for ; len(off) >= 4; off = off[4:] {
		off[0], off[1], off[2], off[3] = first, first+step, first+2*step, first+3*step
		first += 4 * step
	}
	for i := range off {
		off[i] = first + i*step
	}
}

// pages are those that hold the keys [lo, hi) of a sequence.
type pages struct {
	table  []kv.PageID // of the pages to come
	size   int
	lo, hi int // keys to come

	page        kv.PageID
	slot, slots int // of the page: the first, and how many
}

func (w *worker) pages(seq, lo, hi int) pages {
	view := &w.job.launch.KV
	first := lo / view.PageSize // a division is a good part of what a walk costs
	slot := lo - first*view.PageSize
	return pages{table: view.Seqs[seq].Pages[first:], size: view.PageSize, lo: lo - slot, hi: hi, slot: slot}
}

// next moves to the first page, or the next one, if there is one.
func (p *pages) next() bool {
	if p.slots > 0 {
		p.slot = 0
	}
	if p.lo+p.slot >= p.hi {
		return false
	}
	p.page, p.table = p.table[0], p.table[1:]
	p.slots = min(p.size, p.hi-p.lo) - p.slot
	p.lo += p.size
	return true
}

// following is what this worker is likely to read after the keys before lo: the
// chunk's next sweep, which ends at hi or before, the split's next chunk, the
// task's next split, or else the beginning of the task that it would take now.
func (w *worker) following(lo, hi int) area {
	a := area{w.seq, w.walking[0].item.Head, len(w.walking), lo, min(lo+w.job.sweepKeys, w.end)}
	if lo < hi {
		a.hi = min(a.hi, hi)
	}
	if lo < w.end {
		return a
	}
	t, split := w.task, w.split+1
	if split == t.splits {
		if t, split = w.job.upcoming(w.lane), 0; t == nil {
			return area{}
		}
	}
	it := &w.job.launch.Plan.Items[t.item(0, split)]
	return area{it.Seq, it.Head, t.heads, it.Begin, min(it.Begin+w.job.sweepKeys, it.End)}
}
