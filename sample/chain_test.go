package sample

import (
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

var inf = float32(math.Inf(1))

func mustChain(t testing.TB, vocabSize int, o Options) *Chain {
	t.Helper()
	c, err := New(vocabSize, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func next(t testing.TB, c *Chain, logits ...float32) int {
	t.Helper()
	id, err := c.Next(logits)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// support draws many times and returns the ids that came, in order.
func support(t testing.TB, o Options, logits ...float32) []int {
	t.Helper()
	c := mustChain(t, len(logits), o)
	var ids []int
	for range 2000 {
		if id := next(t, c, logits...); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func TestGreedyTakesTheLargest(t *testing.T) {
	if got := next(t, mustChain(t, 4, Options{}), -3, 2, 5, 4); got != 2 {
		t.Errorf("id %d, want 2", got)
	}
}

func TestEqualLogitsGoToTheLowestID(t *testing.T) {
	if got := next(t, mustChain(t, 4, Options{}), -3, 5, 5, 5); got != 1 {
		t.Errorf("greedy: id %d, want 1", got)
	}
	if got := support(t, Options{Temperature: 1, TopK: 2}, 0, 5, 5, 5); !slices.Equal(got, []int{1, 2}) {
		t.Errorf("top-k 2: ids %v, want 1 and 2", got)
	}
	if got := support(t, Options{Temperature: 1, TopK: 4, TopP: 0.5}, 1, 1, 1, 1, 0); !slices.Equal(got, []int{0, 1}) {
		t.Errorf("top-p 0.5 of the four that top-k left: ids %v, want 0 and 1", got)
	}
	if got := support(t, Options{Temperature: 1, TopP: 0.5}, 1, 1, 1, 1); !slices.Equal(got, []int{0, 1}) {
		t.Errorf("top-p 0.5 of four equal ones: ids %v, want 0 and 1", got)
	}
}

// p = 1/2, 1/4, 1/8, 1/8, so that every bound falls on a sum of powers of two.
func halves(p ...float64) []float32 {
	logits := make([]float32, len(p))
	for i, x := range p {
		logits[i] = float32(math.Log(x))
	}
	return logits
}

func TestHandCases(t *testing.T) {
	p := halves(0.125, 0.5, 0.125, 0.25)
	for _, c := range []struct {
		name string
		o    Options
		want []int
	}{
		{"temperature alone", Options{Temperature: 1}, []int{0, 1, 2, 3}},
		{"top-k 1", Options{Temperature: 1, TopK: 1}, []int{1}},
		{"top-k 2", Options{Temperature: 1, TopK: 2}, []int{1, 3}},
		{"top-k over the vocabulary", Options{Temperature: 1, TopK: 9}, []int{0, 1, 2, 3}},
		{"top-p below the first", Options{Temperature: 1, TopP: 0.4}, []int{1}},
		{"top-p in the second", Options{Temperature: 1, TopP: 0.6}, []int{1, 3}},
		{"top-p in the third", Options{Temperature: 1, TopP: 0.8}, []int{0, 1, 3}},
		{"top-p after temperature", Options{Temperature: 0.5, TopP: 0.7}, []int{1}}, // 16/22 of the squares
		{"top-p over what top-k left", Options{Temperature: 1, TopK: 2, TopP: 0.6}, []int{1}},
		{"top-p of what top-k left", Options{Temperature: 1, TopK: 3, TopP: 0.58}, []int{1, 3}}, // 4/7 is not enough
		{"min-p below a quarter", Options{Temperature: 1, MinP: 0.2}, []int{0, 1, 2, 3}},
		{"min-p above a quarter", Options{Temperature: 1, MinP: 0.3}, []int{1, 3}},
		{"min-p 1", Options{Temperature: 1, MinP: 1}, []int{1}},
		{"min-p after top-k", Options{Temperature: 1, TopK: 3, MinP: 0.3}, []int{1, 3}},
	} {
		if got := support(t, c.o, p...); !slices.Equal(got, c.want) {
			t.Errorf("%s: ids %v, want %v", c.name, got, c.want)
		}
	}
}

// TestDrawsFollowTheSoftmax holds χ² of 20,000 draws against its 99.99% point
// for three degrees of freedom.
func TestDrawsFollowTheSoftmax(t *testing.T) {
	const draws, bound = 20000, 21.1
	logits := []float32{0.3, -1, 2, 0.5}
	for _, temperature := range []float64{0.5, 1, 2} {
		c := mustChain(t, 4, Options{Temperature: temperature, Seed: 7})
		var counts [4]float64
		for range draws {
			counts[next(t, c, logits...)]++
		}
		var sum, chi2 float64
		for _, x := range logits {
			sum += math.Exp(float64(x) / temperature)
		}
		for i, x := range logits {
			want := draws * math.Exp(float64(x)/temperature) / sum
			chi2 += (counts[i] - want) * (counts[i] - want) / want
		}
		if !(chi2 < bound) {
			t.Errorf("temperature %v: χ² = %.1f, want below %v", temperature, chi2, bound)
		}
	}
}

func TestPenaltyDividesAboveZeroAndMultipliesBelow(t *testing.T) {
	o := Options{RepetitionPenalty: 2}
	c := mustChain(t, 3, o)
	c.Observe(0)
	if got := next(t, c, 3, 2, 0); got != 1 {
		t.Errorf("3/2 against 2: id %d, want 1", got)
	}
	c = mustChain(t, 3, o)
	c.Observe(0, 0, 0) // once an id, however often it came: −2 and not −8
	if got := next(t, c, -1, -3, -4); got != 0 {
		t.Errorf("−1·2 against −3: id %d, want 0", got)
	}
	if got := next(t, c, -1, -1.5, -4); got != 1 {
		t.Errorf("−1·2 against −1.5: id %d, want 1", got)
	}
}

func TestPenaltyForgetsWhatLeftTheWindow(t *testing.T) {
	c := mustChain(t, 4, Options{RepetitionPenalty: 10, PenaltyWindow: 2})
	logits := []float32{4, 3, 2, 1}
	var got []int
	for range 6 {
		got = append(got, next(t, c, logits...))
	}
	if want := []int{0, 1, 2, 0, 1, 2}; !slices.Equal(got, want) {
		t.Errorf("ids %v, want %v", got, want)
	}
	c = mustChain(t, 4, Options{RepetitionPenalty: 10})
	got = got[:0]
	for range 5 {
		got = append(got, next(t, c, logits...))
	}
	if want := []int{0, 1, 2, 3, 0}; !slices.Equal(got, want) {
		t.Errorf("no window: ids %v, want %v", got, want)
	}
}

func TestSeedNamesTheDraws(t *testing.T) {
	draw := func(seed uint64) (ids []int) {
		c := mustChain(t, 5, Options{Temperature: 1, TopP: 0.95, Seed: seed})
		for range 50 {
			ids = append(ids, next(t, c, 1, 2, 3, 2, 1))
		}
		return ids
	}
	if a, b := draw(1), draw(1); !slices.Equal(a, b) {
		t.Errorf("one seed, two sequences: %v and %v", a, b)
	}
	if a, b := draw(1), draw(2); slices.Equal(a, b) {
		t.Errorf("two seeds, one sequence: %v", a)
	}
}

func TestUnusableLogitsAreErrors(t *testing.T) {
	nan := float32(math.NaN())
	for name, logits := range map[string][]float32{
		"NaN": {1, nan, 2}, "+Inf": {1, 2, inf}, "-Inf alone": {-inf, -inf, -inf}, "too few": {1, 2}, "none": nil,
	} {
		for _, temperature := range []float64{0, 1} {
			if _, err := mustChain(t, 3, Options{Temperature: temperature}).Next(logits); !errors.Is(err, ErrLogits) {
				t.Errorf("%s, temperature %v: error %v, want ErrLogits", name, temperature, err)
			}
		}
	}
}

func TestMaskedLogitsAreNeverDrawn(t *testing.T) {
	if got := support(t, Options{Temperature: 100}, -inf, 1, -inf, 0); !slices.Equal(got, []int{1, 3}) {
		t.Errorf("ids %v, want 1 and 3", got)
	}
	if got := support(t, Options{Temperature: 100, TopK: 3}, -inf, 1, -inf, 0); !slices.Equal(got, []int{1, 3}) {
		t.Errorf("top-k 3: ids %v, want 1 and 3", got)
	}
}

func TestTheColdLimitIsGreedy(t *testing.T) {
	for _, temperature := range []float64{1e-3, 1e-300, 5e-324} {
		if got := support(t, Options{Temperature: temperature}, 1, 3, 2); !slices.Equal(got, []int{1}) {
			t.Errorf("temperature %g: ids %v, want 1 alone", temperature, got)
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	nan := math.NaN()
	for _, o := range []Options{
		{Temperature: -1},
		{Temperature: nan},
		{Temperature: math.Inf(1)},
		{TopK: -1},
		{TopP: 1.1},
		{TopP: nan},
		{MinP: -0.1},
		{MinP: nan},
		{RepetitionPenalty: -1},
		{RepetitionPenalty: nan},
		{RepetitionPenalty: 1e-9},
		{PenaltyWindow: -1},
		{PenaltyWindow: math.MaxInt},
	} {
		if _, err := New(8, o); !errors.Is(err, ErrOptions) {
			t.Errorf("%+v: error %v, want ErrOptions", o, err)
		}
	}
	for _, n := range []int{-1, 0, math.MaxInt} {
		if _, err := New(n, Options{}); !errors.Is(err, ErrOptions) {
			t.Errorf("%d tokens: error %v, want ErrOptions", n, err)
		}
	}
}

// TestTruncationKeepsTheSmallestSet compares the heap with a full sort.
func TestTruncationKeepsTheSmallestSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		logits := rapid.SliceOfN(rapid.IntRange(-6, 6), 1, 60).Draw(t, "logits")
		topK := rapid.IntRange(1, len(logits)).Draw(t, "k")
		topP := rapid.SampledFrom([]float64{0.001, 0.1, 0.5, 0.9, 0.999, 1}).Draw(t, "p")
		all := make([]candidate, len(logits))
		for i, x := range logits {
			all[i] = candidate{id: int32(i), logit: float64(x), weight: math.Exp2(float64(x))} // sums are exact
		}
		sorted := slices.Clone(all)
		slices.SortStableFunc(sorted, func(a, b candidate) int { return int(b.logit - a.logit) })
		sorted = sorted[:topK]
		var sum, reached float64
		for _, x := range sorted {
			sum += x.weight
		}
		want := 0
		for want < len(sorted) && (want == 0 || reached < topP*sum) {
			reached += sorted[want].weight
			want++
		}
		if topP == 1 {
			want = topK
		}
		got := truncate(all, topK, topP)
		slices.Reverse(got)
		if !slices.Equal(got, sorted[:want]) {
			t.Fatalf("kept %v, want %v", got, sorted[:want])
		}
	})
}

func TestNextAllocatesNothing(t *testing.T) {
	logits := make([]float32, 1000)
	for i := range logits {
		logits[i] = float32(i*7919%1000) / 100
	}
	for _, o := range []Options{
		{},
		{Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05, RepetitionPenalty: 1.1, PenaltyWindow: 64},
		{Temperature: 1, TopP: 0.9},
	} {
		c := mustChain(t, len(logits), o)
		if n := testing.AllocsPerRun(100, func() { next(t, c, logits...) }); n != 0 {
			t.Errorf("%+v: %v allocations a token, want none", o, n)
		}
	}
}

func BenchmarkNext(b *testing.B) {
	logits := make([]float32, 128256)
	for i := range logits {
		logits[i] = float32(i*7919%128256) / 10000
	}
	for name, o := range map[string]Options{
		"greedy":        {},
		"temperature":   {Temperature: 1},
		"top-k=40":      {Temperature: 1, TopK: 40},
		"top-p=0.9":     {Temperature: 0.5, TopP: 0.9},
		"all and min-p": {Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05, RepetitionPenalty: 1.1, PenaltyWindow: 64},
	} {
		b.Run("vocab=128256/"+name, func(b *testing.B) {
			c := mustChain(b, len(logits), o)
			for b.Loop() {
				next(b, c, logits...)
			}
		})
	}
}
