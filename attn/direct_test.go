package attn_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/flashdec/flashdec/attn"
)

// memory is one sequence's keys and values, [len][NumKVHeads·dim].
type memory struct{ k, v [][]float32 }

func (m memory) Len() int { return len(m.k) }
func (m memory) Key(dst []float32, head, pos int) {
	copy(dst, m.k[pos][head*len(dst):])
}

func (m memory) Value(dst []float32, head, pos int) {
	copy(dst, m.v[pos][head*len(dst):])
}

// fill makes n keys of one head whose elements are all k, all v.
func fill(n int, shape attn.Shape, k, v float32) memory {
	var m memory
	row := func(dim int, x float32) []float32 {
		r := make([]float32, shape.NumKVHeads*dim)
		for i := range r {
			r[i] = x
		}
		return r
	}
	for range n {
		m.k = append(m.k, row(shape.KeyDim, k))
		m.v = append(m.v, row(shape.ValueDim, v))
	}
	return m
}

var one = attn.Shape{NumHeads: 1, NumKVHeads: 1, KeyDim: 1, ValueDim: 1}

func direct(t *testing.T, shape attn.Shape, opt attn.Options, q []float32, m memory) attn.Reference {
	t.Helper()
	ref, err := attn.Direct(shape, &opt, 0, q, m)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

// TestDirectEqualsPush runs random shapes and rules through the direct form and
// through the recurrence over the keys that each query sees.
func TestDirectEqualsPush(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kvHeads, group := rapid.IntRange(1, 3).Draw(t, "kv heads"), rapid.IntRange(1, 3).Draw(t, "group")
		shape := attn.Shape{
			NumHeads: kvHeads * group, NumKVHeads: kvHeads,
			KeyDim: rapid.IntRange(1, 5).Draw(t, "key dim"), ValueDim: rapid.IntRange(1, 5).Draw(t, "value dim"),
		}
		n, queries := rapid.IntRange(0, 12).Draw(t, "keys"), rapid.IntRange(1, 4).Draw(t, "queries")
		element := rapid.Float32Range(-2, 2)
		draw := func(n int, name string) []float32 { return rapid.SliceOfN(element, n, n).Draw(t, name) }
		opt := attn.Options{
			Causal:  rapid.Bool().Draw(t, "causal"),
			Window:  rapid.IntRange(0, 6).Draw(t, "window"),
			Softcap: rapid.SampledFrom([]float64{0, 0.5, 30}).Draw(t, "softcap"),
		}
		if rapid.Bool().Draw(t, "biased") {
			opt.Slopes, opt.Sinks = draw(shape.NumHeads, "slopes"), draw(shape.NumHeads, "sinks")
		}
		if rapid.Bool().Draw(t, "masked") {
			opt.Mask = &attn.Mask{
				Seqs: 1, Queries: queries, Keys: n,
				Visible: rapid.SliceOfN(rapid.SampledFrom([]uint8{0, 1}), queries*n, queries*n).Draw(t, "mask"),
			}
		}
		var m memory
		for range n {
			m.k = append(m.k, draw(kvHeads*shape.KeyDim, "k"))
			m.v = append(m.v, draw(kvHeads*shape.ValueDim, "v"))
		}
		q := draw(queries*shape.NumHeads*shape.KeyDim, "q")
		ref, err := attn.Direct(shape, &opt, 0, q, m)
		if err != nil {
			t.Fatal(err)
		}
		for i := range queries {
			for h := range shape.NumHeads {
				want := recurrence(shape, &opt, q, m, queries, i, h)
				place := i*shape.NumHeads + h
				got := attn.State[float64]{M: ref.LSE[place], O: ref.Out[place*shape.ValueDim:][:shape.ValueDim]}
				lse := float64(want.LSE())
				if got.M != lse && !(math.Abs(got.M-lse) <= 1e-13) {
					t.Fatalf("query %d head %d: LSE %v, want %v", i, h, got.M, lse)
				}
				for d := range got.O {
					if !(math.Abs(got.O[d]-want.O[d]) <= 1e-13) {
						t.Fatalf("query %d head %d: out %v, want %v", i, h, got.O, want.O)
					}
				}
			}
		}
	})
}

// recurrence is one row by State.Push, with the rules written out once more.
func recurrence(shape attn.Shape, opt *attn.Options, q []float32, m memory, queries, i, h int) attn.State[float64] {
	s := attn.Empty[float64](shape.ValueDim)
	kvHead := h / shape.GroupSize()
	pos := m.Len() - queries + i
	for j := range m.k {
		switch {
		case opt.Causal && j > pos, opt.Window > 0 && j <= pos-opt.Window:
			continue
		case opt.Mask != nil && opt.Mask.Visible[i*opt.Mask.Keys+j] == 0:
			continue
		}
		qk := 0.0
		for d := range shape.KeyDim {
			qk += float64(q[(i*shape.NumHeads+h)*shape.KeyDim+d]) * float64(m.k[j][kvHead*shape.KeyDim+d])
		}
		score := qk / math.Sqrt(float64(shape.KeyDim))
		if opt.Softcap != 0 {
			score = opt.Softcap * math.Tanh(score/opt.Softcap)
		}
		if opt.Slopes != nil {
			score += float64(opt.Slopes[h]) * float64(j-pos)
		}
		v := make([]float64, shape.ValueDim)
		for d := range v {
			v[d] = float64(m.v[j][kvHead*shape.ValueDim+d])
		}
		s.Push(score, v)
	}
	if opt.Sinks != nil {
		attn.Merge(&s, s, attn.SinkState[float64](opt.Sinks[h]))
	}
	return s
}

// TestSoftcapSaturates is the fault of tanh by exp(2x), which overflows.
func TestSoftcapSaturates(t *testing.T) {
	for _, tc := range []struct{ score, softcap, want float64 }{
		{5000, 50, 50},
		{-5000, 50, -50},
		{1e30, 1e-3, 1e-3},
		{-1e30, 1e-3, -1e-3},
		{math.Inf(1), 30, 30},
		{math.Inf(-1), 30, -30},
	} {
		opt := attn.Options{Softcap: tc.softcap}
		if got := opt.Score(tc.score, 1, 0, 0); got != tc.want {
			t.Errorf("softcap %v of %v is %v, want %v", tc.softcap, tc.score, got, tc.want)
		}
	}
}

// TestSoftcapBeforeMask is the fault of capping −Inf to −cap, which gives a
// hidden key the weight e^−1 / (3 + e^−1).
func TestSoftcapBeforeMask(t *testing.T) {
	m := fill(4, one, 1, 1)
	m.v[3][0] = 1000
	opt := attn.Options{Softcap: 1, Mask: &attn.Mask{Seqs: 1, Queries: 1, Keys: 4, Visible: []uint8{1, 1, 1, 0}}}
	if ref := direct(t, one, opt, []float32{0}, m); ref.Out[0] != 1 {
		t.Errorf("out is %v, want 1: the hidden key has weight", ref.Out[0])
	}
}

// TestEveryKeyCountsOnce: equal scores over values of 1 average to exactly 1.
func TestEveryKeyCountsOnce(t *testing.T) {
	for n := 1; n <= 600; n++ {
		ref := direct(t, one, attn.Options{}, []float32{0}, fill(n, one, 3, 1))
		if math.Abs(ref.Out[0]-1) > 1e-13 || math.Abs(ref.LSE[0]-math.Log(float64(n))) > 1e-12 {
			t.Fatalf("%d keys: out %v, LSE %v, want 1 and ln %d", n, ref.Out[0], ref.LSE[0], n)
		}
	}
}

func TestNoVisibleKey(t *testing.T) {
	for name, tc := range map[string]struct {
		m   memory
		opt attn.Options
	}{
		"no keys":   {memory{}, attn.Options{}},
		"masked":    {fill(2, one, 1, float32(math.NaN())), attn.Options{Mask: &attn.Mask{Seqs: 1, Queries: 1, Keys: 2, Visible: []uint8{0, 0}}}},
		"sink -Inf": {memory{}, attn.Options{Sinks: []float32{float32(negInf)}}},
	} {
		ref := direct(t, one, tc.opt, []float32{1}, tc.m)
		if ref.Out[0] != 0 || !math.IsInf(ref.LSE[0], -1) {
			t.Errorf("%s: out %v, LSE %v, want 0 and -Inf", name, ref.Out[0], ref.LSE[0])
		}
	}
	// A query that stands before the first key sees nothing; the next one, one key.
	ref := direct(t, one, attn.Options{Causal: true}, []float32{1, 1}, fill(1, one, 1, 7))
	if ref.Out[0] != 0 || !math.IsInf(ref.LSE[0], -1) || ref.Out[1] != 7 {
		t.Errorf("two queries on one key: out %v, LSE %v", ref.Out, ref.LSE)
	}
}

// TestUnderflownWeightKeepsNaN: a weight that rounds to 0 is still a visible key's.
func TestUnderflownWeightKeepsNaN(t *testing.T) {
	m := fill(2, one, 0, 1)
	m.k[0][0], m.v[0][0] = -2000, float32(math.NaN())
	if ref := direct(t, one, attn.Options{Scale: 1}, []float32{1}, m); !math.IsNaN(ref.Out[0]) {
		t.Errorf("out is %v, want NaN", ref.Out[0])
	}
}

func TestSpanOfHugeWindow(t *testing.T) {
	for _, causal := range []bool{false, true} {
		opt := attn.Options{Causal: causal, Window: math.MaxInt}
		if lo, hi := opt.Span(2, 9, 0); lo != 0 || hi > 2 {
			t.Errorf("causal %v: a query before the first key spans [%d, %d)", causal, lo, hi)
		}
	}
}

func TestTreeMask(t *testing.T) {
	// 0 → 1 → 3, 0 → 2, over two older keys.
	m, err := attn.TreeMask([]int{-1, 0, 0, 1})
	if err != nil {
		t.Fatal(err)
	}
	opt := attn.Options{Mask: m}
	want := []string{"..#...", "..##..", "..#.#.", "..##.#"}
	for i, row := range want {
		for j := range 6 {
			visible := j < 2 || row[j] == '#'
			if opt.Sees(0, 6, 4, i, j) != visible {
				t.Errorf("node %d sees key %d: %v, want %v", i, j, !visible, visible)
			}
		}
	}
	for says, parents := range map[string][]int{"want -1: the first node is a root": {0}, "want an earlier node, 0 to 1, or -1 for a root": {-1, 0, 2}} {
		if _, err := attn.TreeMask(parents); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("parents %v: error %v, want it to say %q", parents, err, says)
		}
	}
	if _, err := attn.TreeMask([]int{-1, 1}); !errors.Is(err, attn.ErrOption) {
		t.Errorf("a node that is its own parent: %v, want ErrOption", err)
	}
}

// TestRowsThatMasksLack hide nothing.
func TestRowsThatMasksLack(t *testing.T) {
	m := &attn.Mask{Seqs: 2, Queries: 2, Keys: 3, Visible: make([]uint8, 12)}
	newest := &attn.Mask{Seqs: 1, Queries: 1, Keys: 2, Visible: make([]uint8, 2), Newest: true}
	if first, row := m.Row(1, 1, 3, 1, 3); first != 1 || len(row) != 2 {
		t.Errorf("a row that is there: %d, %v", first, row)
	}
	for _, tc := range []struct {
		mask                       *attn.Mask
		seq, query, length, lo, hi int
	}{
		{m, 2, 0, 3, 0, 3},
		{m, -1, 0, 3, 0, 3},
		{m, 0, 2, 3, 0, 3},
		{m, 0, -1, 3, 0, 3},
		{m, 0, 0, 4, 0, 4},
		{m, 0, 0, 3, -1, 3},
		{m, 0, 0, 3, 2, 1},
		{m, math.MaxInt, math.MaxInt, 3, 0, 3},
		{newest, 0, 0, 4, 0, 5},
		{newest, 0, 0, math.MinInt, 0, 5},
		{&attn.Mask{}, 0, 0, 1, 0, 1},
	} {
		if first, row := tc.mask.Row(tc.seq, tc.query, tc.length, tc.lo, tc.hi); first != tc.hi || row != nil {
			t.Errorf("%+v: %d, %v, want %d and no element", tc, first, row, tc.hi)
		}
	}
}

func TestDirectRefuses(t *testing.T) {
	nan := math.NaN()
	gqa := attn.Shape{NumHeads: 4, NumKVHeads: 2, KeyDim: 2, ValueDim: 2}
	for _, tc := range []struct {
		shape attn.Shape
		opt   attn.Options
		q     int
		kind  error
		says  string
	}{
		{attn.Shape{NumHeads: 3, NumKVHeads: 2, KeyDim: 1, ValueDim: 1}, attn.Options{}, 3, attn.ErrShape, "3 query heads are not a multiple of 2"},
		{attn.Shape{NumHeads: 1, NumKVHeads: 0, KeyDim: 1, ValueDim: 1}, attn.Options{}, 1, attn.ErrShape, "KV heads is 0"},
		{attn.Shape{NumHeads: 1, NumKVHeads: 1, KeyDim: 1 << 21, ValueDim: 1}, attn.Options{}, 1, attn.ErrShape, "key dim is 2097152"},
		{gqa, attn.Options{}, 7, attn.ErrShape, "q has 7 elements"},
		{gqa, attn.Options{Scale: nan}, 8, attn.ErrOption, "scale is NaN"},
		{gqa, attn.Options{Scale: -1e39}, 8, attn.ErrOption, "that float32 can hold"},
		{gqa, attn.Options{Softcap: -1}, 8, attn.ErrOption, "softcap is -1"},
		{gqa, attn.Options{Window: -1}, 8, attn.ErrOption, "window is -1"},
		{gqa, attn.Options{Slopes: []float32{1}}, 8, attn.ErrShape, "1 ALiBi slopes, want 4"},
		{gqa, attn.Options{Slopes: []float32{1, 1, float32(nan), 1}}, 8, attn.ErrOption, "head 2 is NaN"},
		{gqa, attn.Options{Sinks: []float32{1}}, 8, attn.ErrShape, "1 sinks, want 4"},
		{gqa, attn.Options{Mask: &attn.Mask{Seqs: 1, Queries: 1, Keys: 3, Visible: make([]uint8, 2)}}, 8, attn.ErrShape, "mask has 2 elements"},
		{gqa, attn.Options{Mask: &attn.Mask{Seqs: 1, Queries: math.MaxInt, Keys: math.MaxInt}}, 8, attn.ErrShape, "mask has 0 elements"},
		{gqa, attn.Options{Mask: &attn.Mask{Seqs: 1, Queries: 2, Keys: 3, Visible: make([]uint8, 6)}}, 8, attn.ErrShape, "mask of 2 queries, but sequence 0 has 1"},
		{gqa, attn.Options{Mask: &attn.Mask{Seqs: 1, Queries: 1, Keys: 2, Visible: make([]uint8, 2)}}, 8, attn.ErrShape, "mask of 2 keys, but sequence 0 has 3"},
	} {
		_, err := attn.Direct(tc.shape, &tc.opt, 0, make([]float32, tc.q), fill(3, gqa, 0, 0))
		if !errors.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("got %v, want %v with %q", err, tc.kind, tc.says)
		}
	}
}
