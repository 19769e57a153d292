package backendtest

import (
	"fmt"
	"math"
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/kv"
)

var numbers = []test{
	{"PaddingKeysHaveNoWeight", (*config).numbersPadding},
	{"ManyEqualTerms", (*config).numbersEqualTerms},
	{"LargeHalfValues", (*config).numbersLargeHalf},
	{"LargeQueries", (*config).numbersLargeQuery},
	{"LowScoresAreScores", (*config).numbersLowScores},
	{"ScoresRiseAndFall", (*config).numbersSlopes},
	{"NaNStaysInItsRows", (*config).numbersNaN},
	{"HiddenNaNDoesNotMatter", (*config).numbersHiddenNaN},
	{"NaNOfNoWeightIsKept", (*config).numbersLightNaN},
	{"InfiniteScores", (*config).numbersInfScores},
	{"InfiniteValues", (*config).numbersInfValues},
}

func nan() float32 { return float32(math.NaN()) }

func inf(sign int) float32 { return float32(math.Inf(sign)) }

// equalScores makes all scores 0.
func equalScores(dst []float32, _, _, _ int) { clear(dst) }

// numbersPadding: the mean of ones is exactly 1 for any number of keys, unless
// slots that hold no key count.
func (c *config) numbersPadding(t *testing.T, b backend.Backend) {
	var lens []int
	for n := 1; n <= 600; n++ {
		lens = append(lens, n)
	}
	cs := small(lens...)
	cs.Shape = attn.Shape{NumHeads: 1, NumKVHeads: 1, KeyDim: 8, ValueDim: 4}
	cs.Query = equalScores
	cs.Value = func(dst []float32, _, _, _ int) { fillWith(dst, 1) }
	for _, splits := range []int{0, 3} {
		cs.NumSplits = splits
		r := c.verify(t, b, cs)
		for i, x := range r.Out {
			if x != 1 {
				t.Fatalf("%d keys: out = %v, want exactly 1", i/4+1, x)
			}
		}
	}
}

// numbersEqualTerms: equal terms round the same way at every addition.
func (c *config) numbersEqualTerms(t *testing.T, b backend.Backend) {
	n := 131072
	if testing.Short() {
		n = 20000
	}
	cs := small(n)
	cs.Name = "0.1 from every key"
	cs.Shape = attn.Shape{NumHeads: 1, NumKVHeads: 1, KeyDim: 2, ValueDim: 4}
	cs.PageSize = 256
	cs.Query = equalScores
	cs.Value = func(dst []float32, _, _, _ int) { fillWith(dst, 0.1) }
	s := cs.Build()
	for _, splits := range []int{0, 1, 7} {
		s.Case.NumSplits = splits
		c.verifyStep(t, b, s)
	}
}

// numbersLargeHalf: sums beyond the range and the digits of binary16.
func (c *config) numbersLargeHalf(t *testing.T, b backend.Backend) {
	cs := small(1000)
	cs.KType, cs.VType, cs.NumSplits = kv.F16, kv.F16, 1
	cs.Query = equalScores
	cs.Value = func(dst []float32, _, _, _ int) { fillWith(dst, 100) }
	c.verify(t, b, cs)

	cs = small(65536)
	cs.Shape = attn.Shape{NumHeads: 1, NumKVHeads: 1, KeyDim: 2, ValueDim: 4}
	cs.KType, cs.VType = kv.F16, kv.F16
	cs.Query = equalScores
	cs.Value = func(dst []float32, _, _, pos int) { fillWith(dst, float32(1-pos%2*2)+0.001) }
	c.verify(t, b, cs)
}

// numbersLargeQuery: q·scale is beyond binary16.
func (c *config) numbersLargeQuery(t *testing.T, b backend.Backend) {
	for _, dtype := range types {
		cs := small(50)
		cs.KType, cs.VType, cs.Options.Scale = dtype, dtype, 4
		cs.Query = func(dst []float32, _, _, _ int) { fillWith(dst, 60000) }
		cs.Key = func(dst []float32, _, _, pos int) { fillWith(dst, float32(pos%2)/(1<<19)) }
		if dtype == kv.F16 {
			cs.Key = equalScores // 2⁻¹⁹ is subnormal there
		}
		c.verify(t, b, cs)
	}
}

// numbersLowScores: no finite score is low enough to stand for "masked".
func (c *config) numbersLowScores(t *testing.T, b backend.Backend) {
	for _, score := range []float32{-100, -1e4, -1e9, -3e38} {
		cs := small(70)
		cs.Name = fmt.Sprintf("all scores %v", score)
		cs.Options.Scale = 1
		cs.Options.Sinks = []float32{inf(-1), inf(-1), inf(-1), inf(-1)}
		cs.NumSplits = 3
		cs.Query = firstOnly(1)
		cs.Key = func(dst []float32, _, _, _ int) { dst[0] = score }
		c.verify(t, b, cs)
	}
}

// firstOnly makes queries that see nothing but a key's first element.
func firstOnly(x float32) func([]float32, int, int, int) {
	return func(dst []float32, _, _, _ int) {
		clear(dst)
		dst[0] = x
	}
}

// numbersSlopes: the running maximum moves at every key, at one, or never, by
// little and by more than exp can span.
func (c *config) numbersSlopes(t *testing.T, b backend.Backend) {
	for _, step := range []float32{1. / 16, -1. / 16, 1, -1, 64, -64} {
		for _, splits := range []int{1, 4} {
			cs := small(200)
			cs.Name = fmt.Sprintf("scores rise by %v a key, %d splits", step, splits)
			cs.Options.Scale, cs.NumSplits = 1, splits
			cs.Query = firstOnly(1)
			cs.Key = func(dst []float32, _, _, pos int) { dst[0] = step * float32(pos) }
			c.verify(t, b, cs)
		}
	}
}

func (c *config) numbersNaN(t *testing.T, b backend.Backend) {
	for _, splits := range []int{1, 5} {
		for _, pos := range []int{0, 40, 139} {
			for _, dtype := range types {
				cs := small(140, 60)
				cs.NumSplits, cs.KType, cs.VType = splits, dtype, dtype
				cs.Queries, cs.Options.Causal = []int{20, 1}, true
				cs.Name = fmt.Sprintf("a NaN in key %d, %v, %d splits", pos, dtype, splits)
				cs.Key = only(0, 1, pos, func(dst []float32) { dst[3] = nan() })
				c.verify(t, b, cs)

				cs.Name, cs.Key = fmt.Sprintf("a NaN in value %d, %v, %d splits", pos, dtype, splits), nil
				cs.Value = only(0, 0, pos, func(dst []float32) { dst[31] = nan() })
				c.verify(t, b, cs)
			}
		}
		cs := small(140, 60)
		cs.Name = "a NaN in a query"
		cs.NumSplits, cs.Queries = splits, []int{20, 1}
		cs.Query = func(dst []float32, seq, query, head int) {
			if seq == 0 && query == 17 && head == 2 {
				dst[0] = nan()
			}
		}
		c.verify(t, b, cs)
	}
}

// only changes one key or value.
func only(seq, head, pos int, change func([]float32)) func([]float32, int, int, int) {
	return func(dst []float32, s, h, p int) {
		if s == seq && h == head && p == pos {
			change(dst)
		}
	}
}

// numbersHiddenNaN: NaN in keys and values that a mask, a window or causality
// hides, in the same tiles as visible ones.
func (c *config) numbersHiddenNaN(t *testing.T, b backend.Backend) {
	hide := func(hidden func(pos int) bool) func([]float32, int, int, int) {
		return func(dst []float32, _, _, pos int) {
			if hidden(pos) {
				fillWith(dst, nan())
			}
		}
	}
	for _, splits := range []int{0, 1, 9} {
		cs := small(200)
		cs.Name, cs.NumSplits = "NaN behind a mask", splits
		cs.Options.Mask = &attn.Mask{Seqs: 1, Queries: 1, Keys: 200, Visible: randomMask(4, 200, 4)}
		cs.Key = hide(func(pos int) bool { return cs.Options.Mask.Visible[pos] == 0 })
		cs.Value = cs.Key
		c.verifyFinite(t, b, cs)

		cs = small(200)
		cs.Name, cs.NumSplits = "NaN before the window", splits
		cs.Options.Window = 37
		cs.Key = hide(func(pos int) bool { return pos < 200-37 })
		cs.Value = cs.Key
		c.verifyFinite(t, b, cs)

		cs = small(200)
		cs.Name, cs.NumSplits = "NaN after the first queries", splits
		cs.Options.Causal, cs.Queries = true, []int{3}
		cs.Key = hide(func(pos int) bool { return pos == 199 })
		cs.Value = cs.Key
		c.verify(t, b, cs)
	}
}

// verifyFinite verifies, and wants every output to be a number: the reference
// shall not be what hides a NaN.
func (c *config) verifyFinite(t *testing.T, b backend.Backend, cs Case) {
	t.Helper()
	r := c.verify(t, b, cs)
	for i, x := range r.Out {
		if x-x != 0 {
			t.Fatalf("%v: out[%d] = %v, want a number", &cs, i, x)
		}
	}
}

// numbersLightNaN: a visible NaN value comes out even if its weight rounds to 0,
// in its tile, in an earlier one and in another split.
func (c *config) numbersLightNaN(t *testing.T, b backend.Backend) {
	for _, splits := range []int{1, 2, 200} {
		for _, heavy := range []int{3, 199} {
			cs := small(200)
			cs.Name = fmt.Sprintf("a NaN value of weight exp(−2000), the weight at key %d, %d splits", heavy, splits)
			cs.Options.Scale, cs.NumSplits = 1, splits
			cs.Query = firstOnly(1)
			cs.Key = func(dst []float32, _, _, pos int) {
				dst[0] = 0
				if pos == heavy {
					dst[0] = 2000
				}
			}
			cs.Value = only(0, 0, 5, func(dst []float32) { dst[1] = nan() })
			c.verify(t, b, cs)
		}
	}
}

// numbersInfScores: −Inf has no weight and hides its value; +Inf makes its rows
// NaN, as in float64.
func (c *config) numbersInfScores(t *testing.T, b backend.Backend) {
	for _, splits := range []int{1, 6} {
		for _, every := range []int{1, 2, 150} {
			for _, score := range []float32{inf(-1), inf(1)} {
				cs := small(150, 3)
				cs.Name = fmt.Sprintf("score %v at every key of %d, %d splits", score, every, splits)
				cs.Options.Scale, cs.NumSplits = 1, splits
				cs.Query = firstOnly(1)
				cs.Key = func(dst []float32, seq, _, pos int) {
					if seq == 0 && pos%every == 0 {
						clear(dst)
						dst[0] = score
					}
				}
				cs.Value = func(dst []float32, seq, _, pos int) {
					if seq == 0 && pos%every == 0 {
						dst[2] = nan()
					}
				}
				c.verify(t, b, cs)
			}
		}
	}
}

func (c *config) numbersInfValues(t *testing.T, b backend.Backend) {
	for _, splits := range []int{1, 6} {
		cs := small(150)
		cs.Name, cs.NumSplits = fmt.Sprintf("infinite values, %d splits", splits), splits
		cs.Query = equalScores
		cs.Value = func(dst []float32, _, _, pos int) {
			switch pos {
			case 10:
				dst[0], dst[1] = inf(1), inf(-1)
			case 140:
				dst[0], dst[2] = inf(-1), inf(1)
			}
		}
		c.verify(t, b, cs)
	}
}
