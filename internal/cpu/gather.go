package cpu

import (
	"github.com/flashdec/flashdec/internal/simd"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/plan"
)

// tile lists at most simd.TileKeys keys: where their rows begin in the planes'
// data, in bytes, and their positions; and their own scales, if they have any.
type tile struct {
	k, v, pos      []int
	kScale, vScale []float32
}

// resize makes room for n keys, and for up to simd.TileKeys to add.
func (t *tile) resize(n int) {
	if t.pos == nil {
		t.k, t.v, t.pos = make([]int, simd.TileKeys), make([]int, simd.TileKeys), make([]int, simd.TileKeys)
		t.kScale, t.vScale = make([]float32, simd.TileKeys), make([]float32, simd.TileKeys)
	}
	t.k, t.v, t.pos = t.k[:n], t.v[:n], t.pos[:n]
	t.kScale, t.vScale = t.kScale[:0], t.vScale[:0]
}

// slice is the tile's keys [lo, hi), counted within the tile.
func (t *tile) slice(lo, hi int) tile {
	return tile{t.k[lo:hi], t.v[lo:hi], t.pos[lo:hi], sliceAny(t.kScale, lo, hi), sliceAny(t.vScale, lo, hi)}
}

// sliceAny is s[lo:hi], of nothing nothing.
func sliceAny(s []float32, lo, hi int) []float32 {
	if len(s) == 0 {
		return s
	}
	return s[lo:hi]
}

// add appends the keys [lo, hi) of another tile.
func (t *tile) add(from *tile, lo, hi int) {
	t.k = append(t.k, from.k[lo:hi]...)
	t.v = append(t.v, from.v[lo:hi]...)
	t.pos = append(t.pos, from.pos[lo:hi]...)
	t.kScale = append(t.kScale, sliceAny(from.kScale, lo, hi)...)
	t.vScale = append(t.vScale, sliceAny(from.vScale, lo, hi)...)
}

// gather lists the keys [lo, hi) of the item's sequence and head. Page table
// entries that these keys do not need are not read.
func (w *worker) gather(t *tile, lo, hi int) {
	t.resize(hi - lo)
	view := &w.job.launch.KV
	w.rowsOf(t.k, &view.K, w.item, lo)
	w.rowsOf(t.v, &view.V, w.item, lo)
	t.kScale = w.tokenScales(t.kScale, &view.K, lo, hi)
	t.vScale = w.tokenScales(t.vScale, &view.V, lo, hi)
	for i := range t.pos {
		t.pos[i] = lo + i
	}
}

// rowsOf fills off with the byte offsets of the rows of an item's keys from lo on.
func (w *worker) rowsOf(off []int, p *kv.Plane, it *plan.Item, lo int) {
	view := &w.job.launch.KV
	pages := view.Seqs[it.Seq].Pages
	step := p.Offset(0, 0, 1)
	for len(off) > 0 {
		slot := lo % view.PageSize
		at := p.Offset(pages[lo/view.PageSize], it.Head, slot)
		n := min(view.PageSize-slot, len(off))
		for i := range off[:n] {
			off[i] = at
			at += step
		}
		off = off[n:]
		lo += n
	}
}

// tokenScales fills dst with the scales of the keys [lo, hi), if each has one.
func (w *worker) tokenScales(dst []float32, p *kv.Plane, lo, hi int) []float32 {
	if p.Scales.Kind != kv.TokenScale {
		return dst[:0]
	}
	view := &w.job.launch.KV
	pages := view.Seqs[w.item.Seq].Pages
	dst = dst[:hi-lo]
	for i := 0; i < len(dst); {
		slot := (lo + i) % view.PageSize
		n := min(view.PageSize-slot, len(dst)-i)
		tokenScales(dst[i:i+n], &p.Scales, pages[(lo+i)/view.PageSize], w.item.Head, slot)
		i += n
	}
	return dst
}

// following lists the rows of the keys that this worker is likely to score after
// the chunk that ends at hi: the item's next chunk, or else the beginning of the
// item that nobody has taken yet.
func (w *worker) following(hi int) []int {
	it, lo := w.item, hi
	if hi >= w.end {
		i := int(w.job.next.Load())
		if i >= len(w.job.launch.Plan.Items) {
			return nil
		}
		it = &w.job.launch.Plan.Items[i]
		lo = it.Begin
	}
	off := w.next[:max(0, min(simd.TileKeys, it.End-lo))]
	w.rowsOf(off, &w.job.launch.KV.K, it, lo)
	return off
}
