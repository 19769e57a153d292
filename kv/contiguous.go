package kv

import (
	"fmt"

	"github.com/flashdec/flashdec/attn"
)

// Tensor is a contiguous tensor [batch, NumKVHeads, len, dim] of keys or values.
type Tensor struct {
	Type DType
	Data []byte // little-endian elements; rows of dim begin at whole bytes
	// Scales of tokens are [batch, NumKVHeads, len]; their strides are not looked at.
	Scales Scales
}

// maxEmpty is how many sequences may take up page tables, some 50 bytes each, when
// nothing the caller has is in proportion to them: neither elements nor lengths.
const maxEmpty = 1 << 20

// Contiguous views two tensors, k [batch, kvHeads, n, keyDim] and v [batch,
// kvHeads, n, valueDim], as a cache of one page a sequence, in place. lens [batch]
// is how many of the n keys each sequence really has; nil means n. The rest is
// never read. It wraps [attn.ErrShape].
func Contiguous(k, v Tensor, batch, kvHeads, n, keyDim, valueDim int, lens []int) (View, error) {
	if batch < 0 || batch > maxPages || kvHeads < 1 || n < 0 || min(keyDim, valueDim) < 1 || max(keyDim, valueDim) > maxBytes {
		return View{}, fmt.Errorf("%w: k and v of batch %d, %d KV heads, %d keys, key dim %d, value dim %d",
			attn.ErrShape, batch, kvHeads, n, keyDim, valueDim)
	}
	if lens != nil && len(lens) != batch {
		return View{}, fmt.Errorf("%w: %d lengths, want %d, one a sequence", attn.ErrShape, len(lens), batch)
	}
	if n == 0 && lens == nil && batch > maxEmpty {
		return View{}, fmt.Errorf("%w: a batch of %d sequences without a key, want at most %d", attn.ErrShape, batch, maxEmpty)
	}
	view := View{NumKVHeads: kvHeads, PageSize: max(n, 1), NumPages: batch}
	var err error
	if view.K, err = k.plane("k", batch, kvHeads, n, keyDim); err != nil {
		return View{}, err
	}
	if view.V, err = v.plane("v", batch, kvHeads, n, valueDim); err != nil {
		return View{}, err
	}
	view.Seqs = make([]Table, batch)
	pages := make([]PageID, batch)
	for i := range pages {
		pages[i] = PageID(i)
		view.Seqs[i] = Table{Pages: pages[i : i+1], Len: n}
		if lens == nil {
			continue
		}
		if lens[i] < 0 || lens[i] > n {
			return View{}, fmt.Errorf("%w: sequence %d has length %d, want 0 to %d", attn.ErrShape, i, lens[i], n)
		}
		view.Seqs[i].Len = lens[i]
	}
	return view, nil
}

// plane checks the tensor's size and lays it out.
func (t Tensor) plane(name string, batch, kvHeads, n, dim int) (Plane, error) {
	row := t.Type.rowElements(dim)
	head, ok1 := extent([2]int{n, row})
	page, ok2 := extent([2]int{kvHeads, head})
	heads, ok3 := extent([2]int{batch, kvHeads})
	rows, ok4 := extent([2]int{heads, n})
	bytes, ok5 := extent([2]int{rows, t.Type.RowBytes(dim)})
	if !t.Type.known() || !ok1 || !ok2 || !ok3 || !ok4 || !ok5 || bytes != len(t.Data) {
		return Plane{}, fmt.Errorf("%w: %s has %d bytes, want [%d, %d, %d, %d] of %v",
			attn.ErrShape, name, len(t.Data), batch, kvHeads, n, dim, t.Type)
	}
	p := Plane{Type: t.Type, Dim: dim, Data: t.Data, PageStride: page, HeadStride: head, SlotStride: row, Scales: t.Scales}
	if p.Scales.Kind == TokenScale {
		if len(t.Scales.Values) != rows {
			return Plane{}, fmt.Errorf("%w: %s has %d scales, want [%d, %d, %d]", attn.ErrShape, name, len(t.Scales.Values), batch, kvHeads, n)
		}
		p.Scales.PageStride, p.Scales.HeadStride, p.Scales.SlotStride = kvHeads*n, n, 1
	}
	return p, nil
}
