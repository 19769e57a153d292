package cpu

import (
	"github.com/flashdec/flashdec/internal/simd"
	"github.com/flashdec/flashdec/kv"
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
	pages := view.Seqs[w.item.Seq].Pages
	for i := 0; i < hi-lo; {
		page, slot := pages[(lo+i)/view.PageSize], (lo+i)%view.PageSize
		n := min(view.PageSize-slot, hi-lo-i)
		rows(t.k[i:i+n], &view.K, page, w.item.Head, slot)
		rows(t.v[i:i+n], &view.V, page, w.item.Head, slot)
		if view.K.Scales.Kind == kv.TokenScale {
			t.kScale = t.kScale[:i+n]
			tokenScales(t.kScale[i:], &view.K.Scales, page, w.item.Head, slot)
		}
		if view.V.Scales.Kind == kv.TokenScale {
			t.vScale = t.vScale[:i+n]
			tokenScales(t.vScale[i:], &view.V.Scales, page, w.item.Head, slot)
		}
		i += n
	}
	for i := range t.pos {
		t.pos[i] = lo + i
	}
}

// rows fills off with the byte offsets of the rows of a page from a slot on.
func rows(off []int, p *kv.Plane, page kv.PageID, head, slot int) {
	at := p.Offset(page, head, slot)
	step := p.Offset(0, 0, 1)
	for i := range off {
		off[i] = at
		at += step
	}
}
