package backendtest

import (
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/kv"
)

var bits = []test{
	{"TwiceTheSame", (*config).bitsTwice},
	{"OnePlanManyTimes", (*config).bitsPlanAgain},
	{"ThousandTimes", (*config).bitsThousand},
	{"PagesDoNotMatter", (*config).bitsPages},
	{"ThreadsDoNotMatterUnderOnePlan", (*config).bitsThreads},
	{"InvariantInAnyBatch", (*config).bitsInvariantBatch},
	{"InvariantOnAnyThreads", (*config).bitsInvariantThreads},
}

// mixed is a batch with work for everyone.
func mixed() Case {
	cs := small(3000, 17, 0, 799, 1, 256)
	cs.KType, cs.VType = kv.BF16, kv.BF16
	return cs
}

func (c *config) bitsTwice(t *testing.T, b backend.Backend) {
	for _, splits := range []int{0, 1, 6} {
		cs := mixed()
		cs.NumSplits = splits
		first, second := c.verify(t, b, cs), c.verify(t, b, cs)
		if err := sameBits(first, second); err != nil {
			t.Errorf("%d splits, run twice: %v", splits, err)
		}
	}
}

// bitsPlanAgain: nothing that a run leaves behind, in the plan or in the
// backend, counts in the next.
func (c *config) bitsPlanAgain(t *testing.T, b backend.Backend) {
	cs := small(counts(5, 799)...)
	cs.Shape = attn.Shape{NumHeads: 6, NumKVHeads: 1, KeyDim: 128, ValueDim: 128}
	cs.NumSplits = 3
	s := cs.Build()
	c.repeat(t, b, s, 5)
}

// repeat decodes a step under one plan and wants the same bits each time.
func (c *config) repeat(t *testing.T, b backend.Backend, s *Step, times int) {
	t.Helper()
	p, err := s.Plan(b.Info())
	if err != nil {
		t.Fatal(err)
	}
	first := c.verifyStep(t, b, s)
	for i := range times {
		r, err := decodePlan(b, s, p)
		if err == nil {
			err = sameBits(first, r)
		}
		if err != nil {
			t.Fatalf("run %d: %v", i+2, err)
		}
	}
}

// bitsThousand: many splits of few keys, whoever finishes last.
func (c *config) bitsThousand(t *testing.T, b backend.Backend) {
	cs := small(counts(4, 1000)...)
	cs.Shape = attn.Shape{NumHeads: 4, NumKVHeads: 2, KeyDim: 8, ValueDim: 8}
	cs.Options.Window, cs.NumSplits = 127, 8
	times := 1000
	if testing.Short() {
		times = 100
	}
	c.repeat(t, b, cs.Build(), times)
}

// bitsPages: tiles are cut by position, wherever the rows lie.
func (c *config) bitsPages(t *testing.T, b backend.Backend) {
	for _, splits := range []int{1, 4} {
		cs := small(700, 0, 33)
		cs.NumSplits = splits
		want := c.verify(t, b, cs)
		for i, size := range []int{16, 16, 0, 1, 5, 128} {
			cs.PageSize, cs.PageSeed, cs.Pad = size, uint64(i+1), i
			cs.Layout = turn([]kv.Layout{kv.NHD, kv.HND}, i)
			if err := sameBits(want, c.verify(t, b, cs)); err != nil {
				t.Errorf("page size %d, order %d, layout %d: %v", size, cs.PageSeed, cs.Layout, err)
			}
		}
	}
}

func (c *config) bitsThreads(t *testing.T, b backend.Backend) {
	c.needThreads(t)
	s := mixed().Build()
	p, err := s.Plan(b.Info())
	if err != nil {
		t.Fatal(err)
	}
	want := c.verifyStep(t, b, s)
	for _, threads := range []int{1, 2, 3, 7, 16, 31} {
		c.withThreads(t, threads, func(b backend.Backend) {
			r, err := decodePlan(b, s, p)
			if err == nil {
				err = sameBits(want, r)
			}
			if err != nil {
				t.Errorf("%d threads: %v", threads, err)
			}
		})
	}
}

func (c *config) needThreads(t *testing.T) {
	if c.openThreads == nil {
		t.Skip("the backend has no threads to set")
	}
}

// withThreads runs f on a backend of its own.
func (c *config) withThreads(t *testing.T, threads int, f func(backend.Backend)) {
	t.Helper()
	b := c.openThreads(t, threads)
	f(b)
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// bitsInvariantBatch: a sequence alone, and at two places among 63 others.
func (c *config) bitsInvariantBatch(t *testing.T, b backend.Backend) {
	for _, n := range []int{1, 257, 5000} {
		for _, queries := range []int{1, 3} {
			alone := small(n)
			alone.IDs, alone.Queries = []int{7}, []int{queries}
			alone.Invariant, alone.Options.Causal = true, true
			want := c.verify(t, b, alone)
			for _, place := range []int{0, 41} {
				got := c.among(t, b, alone, place)
				if err := sameBits(want, got); err != nil {
					t.Errorf("%d keys, %d queries, alone and at %d of 64: %v", n, queries, place, err)
				}
			}
		}
	}
}

// among decodes a case of one sequence at a place in a batch of 64, and returns
// that sequence's part of the result.
func (c *config) among(t *testing.T, b backend.Backend, alone Case, place int) Result {
	t.Helper()
	batch := alone
	batch.Lens, batch.IDs, batch.Queries = nil, nil, nil
	first := 0
	for i := range 64 {
		n, id, queries := i*i%151, 100+i, 1+i%2
		if i == place {
			n, id, queries = alone.Lens[0], alone.IDs[0], alone.Queries[0]
		} else if i < place {
			first += queries
		}
		batch.Lens, batch.IDs, batch.Queries = append(batch.Lens, n), append(batch.IDs, id), append(batch.Queries, queries)
	}
	r := c.verify(t, b, batch)
	rows, dim := alone.Queries[0]*alone.Shape.NumHeads, alone.Shape.ValueDim
	from := first * alone.Shape.NumHeads
	return Result{r.Out[from*dim:][:rows*dim], r.LSE[from:][:rows]}
}

// bitsInvariantThreads: plans of their own for each number of threads.
func (c *config) bitsInvariantThreads(t *testing.T, b backend.Backend) {
	c.needThreads(t)
	cs := mixed()
	cs.Invariant = true
	s := cs.Build()
	want := c.verifyStep(t, b, s)
	for threads := 1; threads <= 16; threads++ {
		c.withThreads(t, threads, func(b backend.Backend) {
			r, err := decode(b, s)
			if err == nil {
				err = sameBits(want, r)
			}
			if err != nil {
				t.Errorf("%d threads: %v", threads, err)
			}
		})
	}
}
