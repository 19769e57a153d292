package backendtest

import (
	"fmt"
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/kv"
)

// The values that shapes are swept over. Every value of a list meets every value
// of the list that a test names; the other lists turn beside it.
var (
	lengths    = []int{0, 1, 2, 3, 19, 54, 97, 99, 113, 128, 199, 256, 257, 339, 512, 729, 799, 1177, 1999, 2048, 4097, 8190, 16384, 32789, 131072}
	queryLens  = []int{1, 2, 3, 4, 7, 16, 64}
	pageSizes  = []int{1, 5, 8, 16, 64, 128, 256}
	kvHeads    = []int{1, 2, 3, 4, 8}
	groupSizes = []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 20, 32, 63, 128}
	dims       = [][2]int{
		{32, 32},
		{33, 33},
		{40, 40},
		{59, 59},
		{64, 64},
		{72, 72},
		{80, 80},
		{96, 96},
		{111, 111},
		{112, 112},
		{128, 128},
		{160, 160},
		{192, 192},
		{224, 224},
		{256, 256},
		{512, 512},
		{192, 128},
		{576, 512},
		{64, 256},
		{1, 1},
		{3, 5},
	}
	windows = []int{1, 3, 13, 23, 37, 43, 64, 127, 128, 533, 4095}
	types   = []kv.DType{kv.F32, kv.F16, kv.BF16}
)

// turn is the i-th of a list that begins again when it ends.
func turn[T any](list []T, i int) T { return list[i%len(list)] }

// small is a case to change one thing of.
func small(lens ...int) Case {
	return Case{
		Seed:     1,
		Shape:    attn.Shape{NumHeads: 4, NumKVHeads: 2, KeyDim: 32, ValueDim: 32},
		Lens:     lens,
		PageSize: 16,
	}
}

// counts is a list of n equal counts.
func counts(n, count int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = count
	}
	return list
}

// thinned leaves out most of a list when tests are to be short, and always
// keeps its ends.
func thinned[T any](list []T) []T {
	if !testing.Short() || len(list) < 4 {
		return list
	}
	var kept []T
	for i := range list {
		if i%3 == 0 || i == len(list)-1 {
			kept = append(kept, list[i])
		}
	}
	return kept
}

var sweeps = []test{
	{"Lengths", (*config).sweepLengths},
	{"Batches", (*config).sweepBatches},
	{"QueryLengths", (*config).sweepQueryLengths},
	{"PageSizes", (*config).sweepPageSizes},
	{"Heads", (*config).sweepHeads},
	{"Dims", (*config).sweepDims},
	{"Types", (*config).sweepTypes},
	{"Windows", (*config).sweepWindows},
	{"ManyQueriesWithSevenAGroup", (*config).sweepGroupOfSeven},
	{"ManySplitsWithTwoQueries", (*config).sweepTwoQueries},
	{"Random", (*config).sweepRandom},
}

func (c *config) sweepLengths(t *testing.T, b backend.Backend) {
	for i, n := range lengths {
		if testing.Short() && n > 20000 {
			continue
		}
		cs := small(n)
		cs.KType, cs.VType = turn(types, i), turn(types, i)
		cs.PageSize = turn([]int{16, 0, 64}, i)
		if n > 100000 {
			cs.Shape = attn.Shape{NumHeads: 2, NumKVHeads: 1, KeyDim: 32, ValueDim: 32}
		}
		c.verify(t, b, cs)
	}
}

// sweepBatches: batches of unlike lengths, where one sequence needs many
// splits and its neighbours none.
func (c *config) sweepBatches(t *testing.T, b backend.Backend) {
	for _, x := range []struct {
		name string
		lens []int
	}{
		{"77 of 2048", counts(77, 2048)},
		{"8 of 8192 among 100 of 1024", append(counts(100, 1024), counts(8, 8192)...)},
		{"13353 among 256 short ones", append(append(counts(100, 7), 13353), counts(156, 19)...)},
		{"empty ones between", []int{0, 0, 300, 0, 1, 4097, 0}},
	} {
		cs := small(x.lens...)
		cs.Name = x.name
		cs.Shape = attn.Shape{NumHeads: 2, NumKVHeads: 1, KeyDim: 16, ValueDim: 16}
		if testing.Short() && len(x.lens) > 7 {
			cs.Lens = cs.Lens[len(cs.Lens)*3/4:]
		}
		c.verify(t, b, cs)
	}
}

func (c *config) sweepQueryLengths(t *testing.T, b backend.Backend) {
	for i, n := range thinned(queryLens) {
		for j, length := range []int{n - 1, n, n + 1, 339} {
			for _, causal := range []bool{false, true} {
				cs := small(length, 100)
				cs.Queries = []int{n, turn(queryLens, i+j)}
				cs.PageSize = turn(pageSizes, i+j)
				cs.Options.Causal = causal
				cs.NumSplits = j
				c.verify(t, b, cs)
			}
		}
	}
}

func (c *config) sweepPageSizes(t *testing.T, b backend.Backend) {
	for i, size := range append([]int{0, 300, 1000}, pageSizes...) {
		for j, layout := range []kv.Layout{kv.HND, kv.NHD} {
			cs := small(300, 0, 1, 129)
			cs.PageSize, cs.Layout, cs.PageSeed = size, layout, uint64(i)
			cs.KType = turn(types, i)
			cs.NumSplits = i % 4
			cs.Pad = 3 * j
			c.verify(t, b, cs)
		}
	}
}

func (c *config) sweepHeads(t *testing.T, b backend.Backend) {
	for i, group := range thinned(groupSizes) {
		heads := turn(kvHeads, i)
		cs := small(199, 40)
		cs.Shape.NumKVHeads, cs.Shape.NumHeads = heads, heads*group
		cs.KType, cs.VType = turn(types, i), turn(types, i)
		cs.Queries = []int{1 + i%2, 1}
		c.verify(t, b, cs)
	}
}

func (c *config) sweepDims(t *testing.T, b backend.Backend) {
	for i, dim := range thinned(dims) {
		for _, dtype := range types {
			cs := small(97, 256)
			cs.Shape.KeyDim, cs.Shape.ValueDim = dim[0], dim[1]
			cs.KType, cs.VType = dtype, dtype
			cs.NumSplits = i % 3
			c.verify(t, b, cs)
		}
	}
}

func (c *config) sweepTypes(t *testing.T, b backend.Backend) {
	for _, k := range types {
		for _, v := range types {
			cs := small(799, 54)
			cs.KType, cs.VType = k, v
			c.verify(t, b, cs)
		}
	}
}

// sweepWindows: every window against every length; the plan's splits, and
// forced ones of which a window leaves few.
func (c *config) sweepWindows(t *testing.T, b backend.Backend) {
	for i, n := range thinned(lengths) {
		if n > 16384 {
			continue
		}
		cs := small(n)
		cs.Shape = attn.Shape{NumHeads: 2, NumKVHeads: 1, KeyDim: 16, ValueDim: 16}
		cs.Queries = []int{1 + i%3}
		s := cs.Build()
		for j, window := range thinned(windows) {
			s.Case.Options.Window, s.Case.Options.Causal = window, j%2 == 0
			s.Case.NumSplits = (i + j) % 5
			s.refs = nil
			c.verifyStep(t, b, s)
		}
	}
}

// sweepGroupOfSeven: groups that fill no power of two, with as many queries as
// make a tile's border cut a group where rows are packed.
func (c *config) sweepGroupOfSeven(t *testing.T, b backend.Backend) {
	for _, queries := range []int{1, 2, 16, 17} {
		cs := small(append(counts(2, 2048), counts(6, 256)...)...)
		cs.Name = fmt.Sprintf("28 heads of 4 KV heads, %d queries", queries)
		cs.Shape = attn.Shape{NumHeads: 28, NumKVHeads: 4, KeyDim: 32, ValueDim: 32}
		if queries > 2 {
			cs.Shape, cs.Lens = attn.Shape{NumHeads: 14, NumKVHeads: 2, KeyDim: 16, ValueDim: 16}, []int{1024, 100, 100}
		}
		cs.Queries = counts(len(cs.Lens), queries)
		cs.Options.Causal = true
		cs.PageSize = 1
		c.verify(t, b, cs)
	}
}

// sweepTwoQueries: room for partial states is splits × query rows × heads.
func (c *config) sweepTwoQueries(t *testing.T, b backend.Backend) {
	for _, splits := range []int{0, 7} {
		cs := small(counts(33, 512)...)
		cs.Shape = attn.Shape{NumHeads: 8, NumKVHeads: 2, KeyDim: 16, ValueDim: 16}
		cs.Queries = counts(33, 2)
		cs.Options.Causal = true
		cs.NumSplits = splits
		c.verify(t, b, cs)
	}
}
