package main

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/internal/simd"
	"github.com/flashdec/flashdec/kv"
)

// benchCase is one decode step to measure.
type benchCase struct {
	name           string
	heads, kvHeads int
	dim            int
	lens           []int
	queries        int // new queries a sequence
	dtype          kv.DType
	pageSize       int // 0: contiguous
	window         int
	invariant      bool
}

// keys is how many keys the step reads, all sequences together.
func (c *benchCase) keys() int {
	sum := 0
	for _, n := range c.lens {
		if c.window > 0 {
			n = min(n, c.window+c.queries-1)
		}
		sum += n
	}
	return sum
}

// rowBytes is the size of a key, and of a value, of one head.
func (c *benchCase) rowBytes() int { return (c.dim*c.dtype.Bits() + 7) / 8 }

// kvBytes is what the step must read.
func (c *benchCase) kvBytes() int { return c.keys() * c.kvHeads * 2 * c.rowBytes() }

// storedBytes is what its keys, or its values, take up in memory.
func (c *benchCase) storedBytes() int {
	size := c.pageSlots()
	pages := 0
	for _, n := range c.lens {
		pages += (n + size - 1) / size
	}
	return pages * size * c.kvHeads * c.rowBytes()
}

// pageSlots is the slots of a page: contiguous sequences have one page each, as
// long as the longest.
func (c *benchCase) pageSlots() int {
	if c.pageSize > 0 {
		return c.pageSize
	}
	return slices.Max(c.lens)
}

func (c *benchCase) shape() attn.Shape {
	return attn.Shape{NumHeads: c.heads, NumKVHeads: c.kvHeads, KeyDim: c.dim, ValueDim: c.dim}
}

func (c *benchCase) batch(splits int) flashdec.Batch {
	queries := slices.Repeat([]int{c.queries}, len(c.lens))
	return flashdec.Batch{
		Shape: c.shape(), Options: attn.Options{Window: c.window, Causal: c.queries > 1 || c.window > 0},
		Lens: c.lens, NumQueries: queries, NumSplits: splits, Invariant: c.invariant,
	}
}

// arena is the memory that cases lie in: touched once, since first touches cost
// more than the reading that is measured.
type arena struct {
	k, v  []byte
	cache *kv.Cache
}

// newArena takes at least so many bytes from a cache, huge pages and all: what is
// measured lies as what is used does.
func newArena(bytes int) (*arena, error) {
	const dim = 1024
	page := 2 * 4 * dim
	cache, err := kv.New(kv.Config{NumKVHeads: 1, KeyDim: dim, ValueDim: dim, PageSize: 1, NumPages: (bytes + page - 1) / page})
	if err != nil {
		return nil, err
	}
	view, err := cache.View()
	if err != nil {
		return nil, err
	}
	return &arena{view.K.Data, view.V.Data, cache}, nil
}

func (a *arena) close() error { return a.cache.Close() }

// fill writes random elements of a type everywhere. A block of an odd number of
// elements is repeated: the reading does not get faster by that.
func (a *arena) fill(t simd.Elem) {
	rng := rand.New(rand.NewPCG(1, uint64(t)))
	floats := make([]float32, 1<<16+2)
	for i := range floats {
		floats[i] = float32(rng.NormFloat64())
	}
	block := make([]byte, t.RowBytes(len(floats)))
	simd.Narrow(block, t, floats)
	for _, data := range [][]byte{a.k, a.v} {
		for rest := data; len(rest) > 0; {
			rest = rest[copy(rest, block):]
		}
	}
}

// views lays the case out at as many places of the arena as fit, at most 64: a
// step that is repeated on one place would come from the caches.
func (a *arena) views(c *benchCase) ([]kv.View, error) {
	stored := c.storedBytes()
	if stored > len(a.k) {
		return nil, fmt.Errorf("case %s needs %s of keys, and as much of values, but the arena has %s: see --mb",
			c.name, byteCount(stored), byteCount(len(a.k)))
	}
	views := make([]kv.View, min(64, len(a.k)/stored))
	for i := range views {
		at := i * stored
		views[i] = c.view(a.k[at:at+stored], a.v[at:at+stored])
		if err := views[i].Validate(); err != nil {
			return nil, err
		}
	}
	return views, nil
}

// view lays the case over two pieces of memory, its pages in random order.
func (c *benchCase) view(k, v []byte) kv.View {
	size := c.pageSlots()
	plane := kv.Plane{Type: c.dtype, Dim: c.dim, PageStride: c.kvHeads * size * c.dim, HeadStride: size * c.dim, SlotStride: c.dim}
	view := kv.View{K: plane, V: plane, NumKVHeads: c.kvHeads, PageSize: size}
	view.K.Data, view.V.Data = k, v
	for _, n := range c.lens {
		pages := make([]kv.PageID, (n+size-1)/size)
		view.Seqs = append(view.Seqs, kv.Table{Pages: pages, Len: n})
		view.NumPages += len(pages)
	}
	order := rand.New(rand.NewPCG(2, 3)).Perm(view.NumPages)
	if c.pageSize == 0 {
		slices.Sort(order)
	}
	for _, s := range view.Seqs {
		for i := range s.Pages {
			s.Pages[i] = kv.PageID(order[0])
			order = order[1:]
		}
	}
	return view
}
