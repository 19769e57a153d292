package backendtest

import (
	"fmt"
	"math"
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
)

var rules = []test{
	{"Scale", (*config).ruleScale},
	{"SoftcapOfHugeScores", (*config).ruleSoftcap},
	{"SoftcapGivesMaskedKeysNoWeight", (*config).ruleSoftcapBeforeMask},
	{"Slopes", (*config).ruleSlopes},
	{"SlopesOverLongDistances", (*config).ruleLongSlopes},
	{"Sinks", (*config).ruleSinks},
	{"SinkCountsOnceForAnySplits", (*config).ruleSinkOnce},
	{"NewestQueryStandsAtNewestKey", (*config).ruleAlignment},
	{"RandomMask", (*config).ruleMask},
	{"TreeMask", (*config).ruleTree},
	{"MaskHidesFirstTiles", (*config).ruleFirstTiles},
	{"MaskHidesWholeSplits", (*config).ruleWholeSplits},
	{"WindowLeavesFewerSplits", (*config).ruleWindowSplits},
}

// ruleScale: one plan serves any scale, and the scale of each call counts.
func (c *config) ruleScale(t *testing.T, b backend.Backend) {
	s := small(257, 19).Build()
	p, err := s.Plan(b.Info())
	if err != nil {
		t.Fatal(err)
	}
	for _, scale := range []float64{1 / math.Sqrt(128), 3 / math.Sqrt(128), 0, -0.3, 1e-30, 20} {
		s.Case.Options.Scale = scale
		s.refs = nil
		r, err := decodePlan(b, s, p)
		if err == nil {
			err = c.judge(s, r)
		}
		if err != nil {
			t.Errorf("scale %v: %v", scale, err)
		}
	}
}

// ruleSoftcap: tanh of any score is within ±1, however it is computed.
func (c *config) ruleSoftcap(t *testing.T, b backend.Backend) {
	for _, softcap := range []float64{1e-3, 1, 30, 50} {
		for _, size := range []float32{1, 40, 5000, 1e30, float32(math.Inf(1))} {
			cs := small(70, 3)
			cs.Name = fmt.Sprintf("softcap %v of scores ±%v", softcap, size)
			cs.Options.Softcap, cs.Options.Scale = softcap, 1
			cs.Query = func(dst []float32, _, _, _ int) {
				clear(dst)
				dst[0] = 1
			}
			cs.Key = func(dst []float32, _, _, pos int) {
				clear(dst)
				dst[0] = size
				if pos%3 == 1 {
					dst[0] = -size
				}
			}
			c.verify(t, b, cs)
		}
	}
}

// ruleSoftcapBeforeMask: capping after masking would turn −Inf into −cap.
func (c *config) ruleSoftcapBeforeMask(t *testing.T, b backend.Backend) {
	cs := small(4)
	cs.Options.Softcap = 1
	cs.Options.Mask = &attn.Mask{Seqs: 1, Queries: 1, Keys: 4, Visible: []uint8{1, 1, 1, 0}}
	cs.Query = func(dst []float32, _, _, _ int) { clear(dst) }
	cs.Value = func(dst []float32, _, _, pos int) { fillWith(dst, float32(pos/3)) }
	r := c.verify(t, b, cs)
	for i, x := range r.Out {
		if x != 0 {
			t.Fatalf("out[%d] = %v, want 0: the masked key has weight", i, x)
		}
	}
}

func (c *config) ruleSlopes(t *testing.T, b backend.Backend) {
	for _, queries := range []int{1, 5} {
		for _, causal := range []bool{false, true} {
			cs := small(199, 54)
			cs.Queries = counts(2, queries)
			cs.Options.Causal = causal
			cs.Options.Slopes = []float32{0.5, 0.0625, 0, -0.25}
			cs.Options.Softcap = 2 // the bias is not capped
			c.verify(t, b, cs)
		}
	}
}

// ruleLongSlopes: biases grow far beyond the digits that a float32 score has to
// spare, where keys far away have all the weight.
func (c *config) ruleLongSlopes(t *testing.T, b backend.Backend) {
	cs := small(20000)
	cs.Options.Slopes = []float32{-0.37, 0.29, -0.011, 1e-4}
	for _, splits := range []int{0, 1, 3} {
		cs.NumSplits = splits
		c.verify(t, b, cs)
	}
}

func (c *config) ruleSinks(t *testing.T, b backend.Backend) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, sink := range []float32{-inf, -10, 0, 10, 500, inf, nan} {
		cs := small(300, 1, 0)
		cs.Name = fmt.Sprintf("sink %v", sink)
		cs.Options.Sinks = []float32{sink, 1, -inf, sink}
		c.verify(t, b, cs)
	}
}

func (c *config) ruleSinkOnce(t *testing.T, b backend.Backend) {
	for splits := 1; splits <= 20; splits++ {
		cs := small(20)
		cs.NumSplits = splits
		cs.Options.Sinks = []float32{3, 0, -2, 8}
		c.verify(t, b, cs)
	}
}

// ruleAlignment: of n queries the last stands at the last key; queries before
// the first key see nothing.
func (c *config) ruleAlignment(t *testing.T, b backend.Backend) {
	for length := range 8 {
		cs := small(length, 40)
		cs.Queries = []int{5, 3}
		cs.Options.Causal = true
		c.verify(t, b, cs)
		cs.Options.Window = 2
		c.verify(t, b, cs)
	}
}

func (c *config) ruleMask(t *testing.T, b backend.Backend) {
	for i, queries := range []int{1, 3, 20} {
		cs := small(150, 200, 64)
		cs.Queries = counts(3, queries)
		cs.Options.Causal = i == 1
		cs.NumSplits = 2 * i
		for seqs := 1; seqs <= 3; seqs += 2 {
			cs.Options.Mask = &attn.Mask{Seqs: seqs, Queries: queries, Keys: 200, Visible: randomMask(uint64(i), seqs*queries*200, 4)}
			c.verify(t, b, cs)
		}
		cs.Options.Slopes = []float32{0.1, 0.2, 0.3, 0}
		c.verify(t, b, cs)
	}
}

func (c *config) ruleTree(t *testing.T, b backend.Backend) {
	mask, err := attn.TreeMask([]int{-1, 0, 0, 1, 1, 2, -1, 6})
	if err != nil {
		t.Fatal(err)
	}
	for _, splits := range []int{0, 1, 5} {
		cs := small(8, 9, 300)
		cs.Queries = counts(3, 8)
		cs.Options.Mask = mask
		cs.NumSplits = splits
		c.verify(t, b, cs)
	}
}

// ruleFirstTiles: query i sees the keys behind 512 only, so m is −Inf for whole
// tiles; and the other way round.
func (c *config) ruleFirstTiles(t *testing.T, b backend.Backend) {
	for _, from := range []int{513, 0} {
		cs := small(600)
		cs.Queries = []int{3}
		cs.Options.Mask = &attn.Mask{Seqs: 1, Queries: 3, Keys: 600, Visible: make([]uint8, 3*600)}
		for i := range 3 * 87 {
			cs.Options.Mask.Visible[i/87*600+from+i%87] = 1
		}
		cs.NumSplits = 1
		c.verify(t, b, cs)
	}
}

// ruleWholeSplits: each split in turn is all that a row sees, or all that it
// does not see; a row that sees nothing is 0 and −Inf.
func (c *config) ruleWholeSplits(t *testing.T, b backend.Backend) {
	const n, splits = 320, 5
	for only := range splits + 1 {
		cs := small(n)
		cs.Queries, cs.NumSplits = []int{2}, splits
		cs.Options.Mask = &attn.Mask{Seqs: 1, Queries: 2, Keys: n, Visible: make([]uint8, 2*n)}
		for j := range n {
			if j*splits/n == only {
				cs.Options.Mask.Visible[j] = 1
			} else {
				cs.Options.Mask.Visible[n+j] = 1
			}
		}
		c.verify(t, b, cs)
	}
}

// ruleWindowSplits: fewer keys than the splits that were asked for.
func (c *config) ruleWindowSplits(t *testing.T, b backend.Backend) {
	for _, splits := range []int{2, 8, 100} {
		for _, window := range []int{1, 5, 32, 128} {
			cs := small(4096)
			cs.NumSplits, cs.Options.Window = splits, window
			r := c.verify(t, b, cs)
			for i, x := range r.LSE {
				if math.IsInf(float64(x), 0) {
					t.Fatalf("%v: lse[%d] = %v, though a key is visible", &cs, i, x)
				}
			}
		}
	}
}

func fillWith(dst []float32, x float32) {
	for i := range dst {
		dst[i] = x
	}
}
