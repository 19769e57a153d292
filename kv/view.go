package kv

import (
	"fmt"
	"math"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/internal/simd"
)

// Offset is where the row of a page, KV head and slot begins in Data, in bytes.
func (p *Plane) Offset(page PageID, head, slot int) int {
	return (int(page)*p.PageStride + head*p.HeadStride + slot*p.SlotStride) * p.Type.Bits() / 8
}

// RowBytes is the size of a row.
func (p *Plane) RowBytes() int { return p.Type.RowBytes(p.Dim) }

// Row reads the row of a page, KV head and slot into dst [Dim]: elements widened
// exactly, or codes times their scales, rounded once. A row that does not lie
// inside Data, or has no scale, reads as NaN, and so does one that dst is too
// short for.
func (p *Plane) Row(dst []float32, page PageID, head, slot int) {
	if !p.has(page, head, slot) || len(dst) < p.Dim {
		for i := range dst {
			dst[i] = float32(math.NaN())
		}
		return
	}
	at := p.Offset(page, head, slot)
	simd.Widen(dst[:p.Dim], simd.Elem(p.Type), p.Data[at:at+p.RowBytes()])
	p.Scales.multiply(dst[:p.Dim], page, head, slot)
}

// has reports whether a row and its scale lie inside the plane's memory.
func (p *Plane) has(page PageID, head, slot int) bool {
	if !p.Type.known() {
		return false
	}
	end, ok := extent([2]int{int(page), p.PageStride}, [2]int{head, p.HeadStride}, [2]int{slot, p.SlotStride}, [2]int{p.Dim, 1})
	return ok && end <= elements(len(p.Data), p.Type) && p.Scales.has(page, head, slot)
}

// fits reports whether the rows of pages up to last lie inside the plane's data,
// for the given heads and slots a page.
func (p *Plane) fits(name string, last PageID, heads, slots int) error {
	if !p.Type.known() {
		return fmt.Errorf("%w: %s has elements of type %v, which is not known", attn.ErrShape, name, p.Type)
	}
	if p.Dim < 1 {
		return fmt.Errorf("%w: %s has dim %d, want at least 1", attn.ErrShape, name, p.Dim)
	}
	if p.PageStride < 0 || p.HeadStride < 0 || p.SlotStride < 0 {
		return fmt.Errorf("%w: %s has strides %d, %d, %d (page, head, slot), want none below 0",
			attn.ErrShape, name, p.PageStride, p.HeadStride, p.SlotStride)
	}
	if p.Type == I4 && (p.PageStride|p.HeadStride|p.SlotStride)%2 != 0 {
		return fmt.Errorf("%w: %s has strides %d, %d, %d (page, head, slot), want even ones: rows of %v begin at whole bytes",
			attn.ErrShape, name, p.PageStride, p.HeadStride, p.SlotStride, p.Type)
	}
	end, ok := extent([2]int{int(last), p.PageStride}, [2]int{heads - 1, p.HeadStride}, [2]int{slots - 1, p.SlotStride}, [2]int{p.Dim, 1})
	have := elements(p.bytes(), p.Type)
	if !ok || end > have {
		return fmt.Errorf("%w: %s holds %d elements, too few for page %d of %d heads × %d slots × dim %d",
			attn.ErrShape, name, have, last, heads, slots, p.Dim)
	}
	return p.Scales.fits(name, last, heads, slots, p.Dim)
}

// bytes is the size of the plane's memory.
func (p *Plane) bytes() int {
	if p.Device.Address != 0 {
		return p.Device.Bytes
	}
	return len(p.Data)
}

// elements is how many elements of a type lie in n bytes.
func elements(n int, t DType) int {
	if t == I4 {
		return n * 2
	}
	return n / (t.Bits() / 8)
}

// Validate reports the first thing that would make a kernel read outside the
// view's memory, or other keys than the view was made of. Page-table entries that
// no key needs are not looked at. It wraps [ErrStale], [attn.ErrShape], [ErrPage] or
// [ErrCapacity]. A sequence that changes while a decode reads it is for the caller
// to prevent.
func (v *View) Validate() error {
	if v == nil {
		return fmt.Errorf("%w: the view is nil", attn.ErrShape)
	}
	if v.NumKVHeads < 1 || v.PageSize < 1 || v.NumPages < 0 {
		return fmt.Errorf("%w: a view of %d KV heads and %d pages of %d slots, want at least 1, 0 and 1",
			attn.ErrShape, v.NumKVHeads, v.NumPages, v.PageSize)
	}
	last := PageID(-1)
	for i := range v.Seqs {
		if err := v.Seqs[i].fresh(i); err != nil {
			return err
		}
		highest, err := v.Seqs[i].highest(i, v.PageSize, v.NumPages)
		if err != nil {
			return err
		}
		last = max(last, highest)
	}
	if last < 0 {
		return nil // no keys, nothing to read
	}
	for _, m := range [...]struct {
		name string
		mem  *Memory
	}{{"keys", &v.K.Device}, {"values", &v.V.Device}} {
		if err := m.mem.check(m.name); err != nil {
			return err
		}
	}
	slots := v.longestPage()
	if err := v.K.fits("K", last, v.NumKVHeads, slots); err != nil {
		return err
	}
	return v.V.fits("V", last, v.NumKVHeads, slots)
}

// highest is the highest page that the table's keys need, -1 for no keys.
func (t *Table) highest(seq, pageSize, numPages int) (PageID, error) {
	if t.Len < 0 {
		return 0, fmt.Errorf("%w: sequence %d has %d keys, want 0 or more", attn.ErrShape, seq, t.Len)
	}
	need := pagesFor(t.Len, pageSize)
	if need > len(t.Pages) {
		return 0, fmt.Errorf("%w: sequence %d has %d keys, but its %d pages of %d slots hold %d",
			ErrCapacity, seq, t.Len, len(t.Pages), pageSize, len(t.Pages)*pageSize)
	}
	highest := PageID(-1)
	for j, page := range t.Pages[:need] {
		if page < 0 || int(page) >= numPages {
			return 0, fmt.Errorf("%w: sequence %d has page %d as entry %d, want 0 to %d", ErrPage, seq, page, j, numPages-1)
		}
		highest = max(highest, page)
	}
	return highest, nil
}

// longestPage is the most slots of one page that any sequence uses.
func (v *View) longestPage() int {
	slots := 0
	for i := range v.Seqs {
		slots = max(slots, min(v.Seqs[i].Len, v.PageSize))
	}
	return slots
}

// pagesFor is how many pages n keys need.
func pagesFor(n, pageSize int) int {
	pages := n / pageSize
	if n%pageSize != 0 {
		pages++
	}
	return pages
}

// Sequence returns the keys and values of the i-th sequence, for [attn.Direct].
// A sequence that the view lacks has no keys; a row that is not inside its memory,
// which [View.Validate] would have told, reads as NaN.
func (v *View) Sequence(i int) attn.KeyValues {
	if i < 0 || i >= len(v.Seqs) {
		return &reader{v, &Table{}}
	}
	return &reader{v, &v.Seqs[i]}
}

// reader is one sequence of a view.
type reader struct {
	view  *View
	table *Table
}

func (r *reader) Len() int { return r.table.Len }

func (r *reader) Key(dst []float32, head, pos int) { r.row(&r.view.K, dst, head, pos) }

func (r *reader) Value(dst []float32, head, pos int) { r.row(&r.view.V, dst, head, pos) }

func (r *reader) row(p *Plane, dst []float32, head, pos int) {
	size, page := r.view.PageSize, PageID(-1) // which no plane has
	if pos >= 0 && size > 0 && pos/size < len(r.table.Pages) {
		page = r.table.Pages[pos/size]
		pos %= size
	}
	p.Row(dst, page, head, pos)
}
