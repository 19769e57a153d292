package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/flashdec/flashdec/kv"
)

// maxPlaces bounds how often a case is laid out: as many steps are one round.
const maxPlaces = 64

// Views lays the case out at as many places as fit, at most maxPlaces: a step that is
// repeated on one place would come from the caches. The memory is filled with
// elements of its type, unless ctx is done first.
func (a *Arena) Views(ctx context.Context, c *Case) ([]kv.View, error) {
	rows := c.StoredRows()
	bytes := rows * c.RowBytes()
	if bytes > len(a.k) {
		return nil, fmt.Errorf("case %q needs %d bytes of keys, and as many of values, but there are %d", c.Name, bytes, len(a.k))
	}
	if err := a.fill(ctx, c.DType); err != nil {
		return nil, err
	}
	views := make([]kv.View, min(maxPlaces, len(a.k)/bytes))
	if c.DType.Quantised() {
		if err := a.scale(rows*len(views), c.DType); err != nil {
			return nil, err
		}
	}
	for i := range views {
		views[i] = c.View()
		c.place(a, i*rows, &views[i])
		if err := views[i].Validate(); err != nil {
			return nil, err
		}
	}
	return views, nil
}

// pageOrder is where the pages of all sequences lie: anywhere when there are
// pages, one after the other when the case says so or sequences are contiguous.
func (c *Case) pageOrder() []int {
	pages, slots := 0, c.pageSlots()
	for _, n := range c.Lens {
		pages += pagesOf(n, slots)
	}
	order := rand.New(rand.NewPCG(2, 3)).Perm(pages)
	if c.PageSize == 0 || c.InOrder {
		slices.Sort(order)
	}
	return order
}

// View is the case laid out, without memory yet: its planes have no data.
func (c *Case) View() kv.View {
	order := c.pageOrder()
	slots := c.pageSlots()
	plane := kv.Plane{Type: c.DType, Dim: c.Dim, PageStride: c.KVHeads * slots * c.Dim, HeadStride: slots * c.Dim, SlotStride: c.Dim}
	if c.DType.Quantised() {
		plane.Scales = kv.Scales{Kind: kv.TokenScale, PageStride: c.KVHeads * slots, HeadStride: slots, SlotStride: 1}
	}
	view := kv.View{K: plane, V: plane, NumKVHeads: c.KVHeads, PageSize: slots, NumPages: len(order)}
	for _, n := range c.Lens {
		table := kv.Table{Pages: make([]kv.PageID, pagesOf(n, slots)), Len: n}
		for i := range table.Pages {
			table.Pages[i] = kv.PageID(order[i])
		}
		order = order[len(table.Pages):]
		view.Seqs = append(view.Seqs, table)
	}
	return view
}

// place gives a view the memory from a row on.
func (c *Case) place(a *Arena, row int, view *kv.View) {
	rows, size := c.StoredRows(), c.RowBytes()
	view.K.Data = a.k[row*size : (row+rows)*size]
	view.V.Data = a.v[row*size : (row+rows)*size]
	if c.DType.Quantised() {
		view.K.Scales.Values = a.kScale[row : row+rows]
		view.V.Scales.Values = a.vScale[row : row+rows]
	}
}
