package backendtest

import (
	"strconv"
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/kv"
)

var memories = []test{
	{"UnusedSlotsAndPageEntries", (*config).memoryUnused},
	{"ValuesOfOneTileOnManyPages", (*config).memoryTileSpansPages},
	{"KeysAndValuesInterleaved", (*config).memoryInterleaved},
	{"ContiguousTensors", (*config).memoryContiguous},
	{"HeadsShareRows", (*config).memorySharedRows},
	{"SequencesSharePages", (*config).memorySharedPages},
	{"EveryRowIsWritten", (*config).memoryEveryRow},
	{"NothingBesideOutIsWritten", (*config).memoryGuards},
	{"StatesLeaveOutAlone", (*config).memoryStatesOnly},
	{"OffsetsBeyond32Bits", (*config).memorySparse},
	{"EndsAtInaccessiblePage", (*config).memoryCliff},
}

func (c *config) memoryUnused(t *testing.T, b backend.Backend) {
	for _, dtype := range types {
		cs := small(17, 0, 64)
		cs.KType, cs.VType = dtype, dtype
		c.verify(t, b, cs)
	}
}

// memoryTileSpansPages: a tile of values needs several pages, and its own ones,
// not those of another tile's keys.
func (c *config) memoryTileSpansPages(t *testing.T, b backend.Backend) {
	for _, size := range []int{16, 32, 7} {
		cs := small(300)
		cs.Shape.KeyDim, cs.Shape.ValueDim = 256, 256
		cs.PageSize, cs.PageSeed = size, 9
		c.verify(t, b, cs)
	}
}

func (c *config) memoryInterleaved(t *testing.T, b backend.Backend) {
	for i, dim := range [][2]int{{64, 64}, {64, 40}, {24, 64}} {
		cs := small(50, 9)
		cs.Shape.KeyDim, cs.Shape.ValueDim = dim[0], dim[1]
		cs.Interleaved = true
		cs.KType, cs.VType = turn(types, i), turn(types, i)
		c.verify(t, b, cs)
	}
}

// memoryContiguous: tensors used in place, whose tails hold no key.
func (c *config) memoryContiguous(t *testing.T, b backend.Backend) {
	cs := small(100, 0, 77)
	cs.PageSize, cs.Layout = 0, kv.HND
	s := cs.Build()
	view, err := kv.Contiguous(
		kv.Tensor{Type: cs.KType, Data: s.View.K.Data}, kv.Tensor{Type: cs.VType, Data: s.View.V.Data},
		s.View.NumPages, cs.Shape.NumKVHeads, s.View.PageSize, cs.Shape.KeyDim, cs.Shape.ValueDim, nil)
	if err != nil {
		t.Fatal(err)
	}
	view.Seqs = s.View.Seqs
	s.View = view
	c.verifyStep(t, b, s)
}

// memorySharedRows: a head stride of 0 gives all KV heads the same rows.
func (c *config) memorySharedRows(t *testing.T, b backend.Backend) {
	cs := small(200)
	cs.Key = func(dst []float32, _, _, pos int) { cs.fill(dst, cs.KType, 'k', 0, 0, pos) }
	cs.Value = func(dst []float32, _, _, pos int) { cs.fill(dst, cs.VType, 'v', 0, 0, pos) }
	s := cs.Build()
	s.View.K.HeadStride, s.View.V.HeadStride = 0, 0
	c.verifyStep(t, b, s)
}

// memorySharedPages: sequences with the same prefix, on the same pages.
func (c *config) memorySharedPages(t *testing.T, b backend.Backend) {
	cs := small(64, 64, 40)
	cs.IDs = []int{0, 0, 0}
	s := cs.Build()
	for i := range s.View.Seqs {
		s.View.Seqs[i].Pages = s.View.Seqs[0].Pages
	}
	c.verifyStep(t, b, s)
}

// memoryEveryRow: buffers hold NaN at first, so an output row that a merge
// forgets is seen.
func (c *config) memoryEveryRow(t *testing.T, b backend.Backend) {
	for splits := range 4 {
		cs := small(300, 500)
		cs.Shape = attn.Shape{NumHeads: 4, NumKVHeads: 4, KeyDim: 64, ValueDim: 64}
		cs.PageSize, cs.NumSplits = 256, splits
		c.verify(t, b, cs)
	}
}

func (c *config) memoryGuards(t *testing.T, b backend.Backend) {
	for _, dim := range []int{40, 1, 3, 17} {
		cs := small(300, 200)
		cs.Shape = attn.Shape{NumHeads: 3, NumKVHeads: 3, KeyDim: dim, ValueDim: dim}
		cs.KType, cs.VType = kv.F16, kv.F16
		cs.Queries, cs.NumSplits = []int{2, 2}, 3
		c.verify(t, b, cs)
	}
}

func (c *config) memoryStatesOnly(t *testing.T, b backend.Backend) {
	s := small(300, 0).Build()
	if _, err := decodeStates(b, s); err != nil {
		t.Fatal(err)
	}
}

// memorySparse: pages whose elements lie beyond 2³¹ and 2³², and a slot stride
// that reaches as far, in memory of which next to nothing exists.
func (c *config) memorySparse(t *testing.T, b backend.Backend) {
	if !c.sparse {
		t.Skip("the backend copies what a view spans")
	}
	if strconv.IntSize == 32 {
		t.Skip("an int of 32 bits counts no elements beyond 2³¹")
	}
	for _, x := range []struct {
		name     string
		pageSize int
		stride   int64 // of a page, in elements
		pages    []kv.PageID
	}{
		{"page 20000 of 276480 elements", 16, 276480, []kv.PageID{20000, 7768, 7767}},
		{"pages of 2³⁰ elements", 32, 1 << 30, []kv.PageID{4, 0}},
		{"slots of 2²⁷ elements", 40, 40 << 27, []kv.PageID{0}},
	} {
		cs := small(36)
		cs.Name = x.name
		cs.KType, cs.VType, cs.PageSize = kv.BF16, kv.BF16, x.pageSize
		s := &Step{Case: &cs}
		s.View = kv.View{NumKVHeads: cs.Shape.NumKVHeads, PageSize: x.pageSize, NumPages: 1 << 15}
		s.View.Seqs = []kv.Table{{Pages: append(x.pages, unusedPage), Len: 36}}
		plane := cs.plane(cs.KType, cs.Shape.KeyDim)
		plane.PageStride = int(x.stride)
		plane.SlotStride = plane.PageStride / x.pageSize
		plane.HeadStride = cs.Shape.KeyDim
		bytes := (int(highest(x.pages)) + 1) * plane.PageStride * 2
		s.View.K, s.View.V = plane, plane
		s.View.K.Data, s.View.V.Data = reserve(t, bytes), reserve(t, bytes)
		s.fillView()
		s.fillQ()
		c.verifyStep(t, b, s)
	}
}

func highest(pages []kv.PageID) kv.PageID {
	top := pages[0]
	for _, p := range pages {
		top = max(top, p)
	}
	return top
}

// memoryCliff: the last rows end where the memory does, so whoever reads past
// them is stopped.
func (c *config) memoryCliff(t *testing.T, b backend.Backend) {
	if !c.sparse {
		t.Skip("the backend copies what a view spans")
	}
	if strconv.IntSize == 32 {
		t.Skip("an int of 32 bits counts no elements beyond 2³¹")
	}
	for _, dtype := range types {
		for _, dim := range []int{1, 7, 33, 64} {
			cs := small(45, 17)
			cs.KType, cs.VType = dtype, dtype
			cs.Shape.KeyDim, cs.Shape.ValueDim = dim, dim
			s := cs.Build()
			end := s.View.NumPages - 1 // the last row of all belongs to a key
			for i := range s.View.Seqs[0].Pages {
				s.View.Seqs[0].Pages[i] = kv.PageID(end - 2 + i)
			}
			for i := range s.View.Seqs[1].Pages {
				s.View.Seqs[1].Pages[i] = kv.PageID(i)
			}
			s.View.Seqs[0].Len, cs.Lens[0] = 48, 48
			s.View.K.Data, s.View.V.Data = beforeCliff(t, s.View.K.Data), beforeCliff(t, s.View.V.Data)
			s.fillView()
			c.verifyStep(t, b, s)
		}
	}
}
