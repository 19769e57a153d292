package attn_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/flashdec/flashdec/attn"
)

const valueDim = 3

var negInf = math.Inf(-1)

// key is one scored key with its value.
type key struct {
	score float64
	value []float64 // [valueDim]
}

// keys draws up to n keys whose scores span the usual and the extreme.
func keys(t *rapid.T, n int) []key {
	score := rapid.OneOf(
		rapid.Float64Range(-4, 4),
		rapid.Float64Range(-1e4, 1e4),
		rapid.SampledFrom([]float64{negInf, -1e30, -math.MaxFloat64, 0, 700, 1e30}),
	)
	value := rapid.SliceOfN(rapid.Float64Range(-100, 100), valueDim, valueDim)
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) key {
		return key{score.Draw(t, "score"), value.Draw(t, "value")}
	}), 0, n).Draw(t, "keys")
}

// push is the state of the keys by the recurrence.
func push(ks []key) attn.State[float64] {
	s := attn.Empty[float64](valueDim)
	for _, k := range ks {
		s.Push(k.score, k.value)
	}
	return s
}

// softmax is the state of the keys by the direct form (§2.4.1).
func softmax(ks []key) attn.State[float64] {
	s := attn.Empty[float64](valueDim)
	for _, k := range ks {
		s.M = max(s.M, k.score)
	}
	if s.Empty() {
		return s
	}
	for _, k := range ks {
		p := math.Exp(k.score - s.M)
		s.L += p
		for d, v := range k.value {
			s.O[d] += p * v
		}
	}
	for d := range s.O {
		s.O[d] /= s.L
	}
	return s
}

func merge(states ...attn.State[float64]) attn.State[float64] {
	dst := attn.Empty[float64](valueDim)
	attn.Merge(&dst, states...)
	return dst
}

// close64 compares states; values are at most 100, so 1e-11 is a dozen roundings.
func close64(a, b attn.State[float64]) bool {
	if a.M != b.M || !(math.Abs(a.L-b.L) <= 1e-12*math.Abs(b.L)) {
		return false
	}
	for d := range a.O {
		if !(math.Abs(a.O[d]-b.O[d]) <= 1e-11) {
			return false
		}
	}
	return true
}

func same(a, b attn.State[float64]) bool {
	return a.M == b.M && a.L == b.L && slices.Equal(a.O, b.O)
}

func TestPushEqualsDirect(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ks := keys(t, 40)
		if got, want := push(ks), softmax(ks); !close64(got, want) {
			t.Fatalf("recurrence %v, direct %v", got, want)
		}
	})
}

func TestMergeIdentity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := push(keys(t, 10))
		garbage := attn.Empty[float64](valueDim)
		garbage.O[0], garbage.O[1] = math.NaN(), math.Inf(1)
		if !same(merge(a, garbage), a) || !same(merge(garbage, a), a) || !same(merge(garbage, garbage, a, garbage), a) {
			t.Fatalf("merging %v with an empty state changed it", a)
		}
	})
}

func TestMergeCommutes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := push(keys(t, 10)), push(keys(t, 10))
		if ab, ba := merge(a, b), merge(b, a); !same(ab, ba) {
			t.Fatalf("a·b = %v, b·a = %v", ab, ba)
		}
	})
}

func TestMergeAssociates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := push(keys(t, 10)), push(keys(t, 10)), push(keys(t, 10))
		left, right := merge(merge(a, b), c), merge(a, merge(b, c))
		if !close64(left, right) || !close64(merge(a, b, c), left) {
			t.Fatalf("(a·b)·c = %v, a·(b·c) = %v", left, right)
		}
	})
}

// TestAnySplitEqualsDirect cuts keys anywhere, into any number of pieces,
// empty ones too, more than one merge group.
func TestAnySplitEqualsDirect(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ks := keys(t, 200)
		cuts := rapid.SliceOfN(rapid.IntRange(0, len(ks)), 0, 150).Draw(t, "cuts")
		slices.Sort(cuts)
		var states []attn.State[float64]
		begin := 0
		for _, end := range append(cuts, len(ks)) {
			states = append(states, push(ks[begin:end]))
			begin = end
		}
		if got, want := merge(states...), softmax(ks); !close64(got, want) {
			t.Fatalf("%d splits give %v, direct %v", len(states), got, want)
		}
	})
}

func TestMergeIntoOperand(t *testing.T) {
	a := push([]key{{1, []float64{1, 2, 3}}})
	b := push([]key{{2, []float64{-1, 0, 5}}})
	want := merge(a, b)
	attn.Merge(&a, a, b)
	if !same(a, want) {
		t.Fatalf("merge in place gives %v, want %v", a, want)
	}
}

func TestMergeShiftsOnlyM(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ks := keys(t, 20)
		c := float64(rapid.IntRange(-64, 64).Draw(t, "shift"))
		shifted := slices.Clone(ks)
		for i := range shifted {
			shifted[i].score = math.Round(ks[i].score) + c
			ks[i].score = math.Round(ks[i].score)
		}
		if slices.ContainsFunc(ks, func(k key) bool { return math.Abs(k.score) > 1e6 && !math.IsInf(k.score, 0) }) {
			return // a shift below the score's own ulp is no shift
		}
		a, b := push(ks), push(shifted)
		a.M += c
		if !same(a, b) {
			t.Fatalf("scores + %v: %v, want %v", c, b, a)
		}
	})
}

// TestMergeOfEmpties is the fault of merges that compute −Inf − (−Inf).
func TestMergeOfEmpties(t *testing.T) {
	garbage := attn.State[float32]{M: negInf, O: []float32{float32(math.NaN()), 7}}
	dst := attn.State[float32]{M: 3, L: 2, O: []float32{1, 1}}
	attn.Merge(&dst, garbage, garbage, garbage)
	if !dst.Empty() || dst.L != 0 || !slices.Equal(dst.O, []float32{0, 0}) {
		t.Errorf("merge of empty states is %v, want (-Inf, 0, [0 0])", dst)
	}
	if lse := dst.LSE(); !math.IsInf(float64(lse), -1) {
		t.Errorf("its LSE is %v, want -Inf", lse)
	}
	attn.Merge(&dst)
	if !dst.Empty() {
		t.Errorf("merge of no states is %v", dst)
	}
}

// TestMergeKeepsRowsApart merges prefix and suffix states row by row, where one
// row lacks the prefix, one both, and one neither.
func TestMergeKeepsRowsApart(t *testing.T) {
	full := attn.State[float32]{M: 1, L: 2, O: []float32{4, 5}}
	none := attn.State[float32]{M: negInf, O: []float32{float32(math.NaN()), 0}}
	for _, tc := range []struct{ prefix, suffix, want attn.State[float32] }{
		{none, full, full},
		{none, none, attn.State[float32]{M: negInf, O: []float32{0, 0}}},
		{full, full, attn.State[float32]{M: 1, L: 4, O: []float32{4, 5}}},
	} {
		dst := attn.Empty[float32](2)
		attn.Merge(&dst, tc.prefix, tc.suffix)
		if dst.M != tc.want.M || dst.L != tc.want.L || !slices.Equal(dst.O, tc.want.O) {
			t.Errorf("merge(%v, %v) = %v, want %v", tc.prefix, tc.suffix, dst, tc.want)
		}
	}
}

func TestNaNStays(t *testing.T) {
	nan := math.NaN()
	ks := []key{{1, []float64{1, 1, 1}}, {nan, []float64{1, 1, 1}}, {2, []float64{1, 1, 1}}}
	whole := push(ks)
	merged := merge(push(ks[:1]), push(ks[1:2]), push(ks[2:]))
	for name, s := range map[string]attn.State[float64]{"recurrence": whole, "merge": merged} {
		if !math.IsNaN(float64(s.LSE())) || !math.IsNaN(s.O[0]) {
			t.Errorf("a NaN score is lost by the %s: %v", name, s)
		}
	}
	value := push([]key{{1, []float64{1, nan, 1}}, {2, []float64{1, 1, 1}}})
	if !math.IsNaN(value.O[1]) || value.O[0] != 1 || math.IsNaN(float64(value.LSE())) {
		t.Errorf("a NaN value gives %v, want NaN in its own element alone", value)
	}
	for _, lost := range []float64{nan, math.Inf(1), math.Inf(-1)} { // 0·∞ is NaN, too
		before, after := key{-2000, []float64{1, lost, 1}}, key{0, []float64{1, 2, 1}}
		for name, s := range map[string]attn.State[float64]{
			"recurrence": push([]key{before, after}), "turned recurrence": push([]key{after, before}), "merge": merge(push([]key{before}), push([]key{after})),
		} {
			if !math.IsNaN(s.O[1]) || s.O[0] != 1 || s.L != 1 {
				t.Errorf("the value %v of a key whose weight is 0 by now is lost by the %s: %v", lost, name, s)
			}
		}
	}
}

func TestInfiniteScores(t *testing.T) {
	one := []float64{1, 1, 1}
	if s := push([]key{{0, one}, {math.Inf(1), one}}); !math.IsNaN(s.L) {
		t.Errorf("a +Inf score gives l = %v, want NaN as in the direct form", s.L)
	}
	if s := push([]key{{negInf, one}, {negInf, one}}); !s.Empty() {
		t.Errorf("scores of -Inf give %v, want the empty state", s)
	}
	if s := push([]key{{-math.MaxFloat64, one}}); s.Empty() || s.O[0] != 1 {
		t.Errorf("the lowest finite score gives %v, want a real key", s)
	}
}

func TestSink(t *testing.T) {
	s := attn.State[float64]{M: 0, L: 1, O: []float64{2, 4, 6}}
	got := merge(s, attn.SinkState[float64](0))
	if want := (attn.State[float64]{M: 0, L: 2, O: []float64{1, 2, 3}}); !same(got, want) {
		t.Errorf("sink 0 gives %v, want %v", got, want)
	}
	if got := merge(s, attn.SinkState[float64](float32(negInf))); !same(got, s) {
		t.Errorf("sink -Inf gives %v, want %v", got, s)
	}
	alone := merge(attn.Empty[float64](3), attn.SinkState[float64](5))
	if lse := merge(attn.Empty[float64](3), attn.SinkState[float64](float32(math.Inf(1)))); !math.IsNaN(float64(lse.LSE())) {
		t.Errorf("a sink of +Inf alone gives %v, want NaN as in the direct form", lse)
	}
	if alone.LSE() != 5 || alone.O[0] != 0 {
		t.Errorf("a sink without keys gives %v, want LSE 5 and zeros", alone)
	}
}

// TestIncrementalExample is the worked example of §2.4.1: three keys, o printed
// to three digits, l to four.
func TestIncrementalExample(t *testing.T) {
	ks := []key{
		{0.1200, []float64{0.1, 0.2, 0.3}},
		{0.1650, []float64{0.5, 0.4, 0.3}},
		{0.1600, []float64{0.2, 0.6, 0.1}},
	}
	want := []attn.State[float64]{
		{M: 0.12, L: 1, O: []float64{0.100, 0.200, 0.300}},
		{M: 0.165, L: 1.9560, O: []float64{0.304, 0.302, 0.300}},
		{M: 0.165, L: 2.9510, O: []float64{0.269, 0.403, 0.233}},
	}
	s := attn.Empty[float64](valueDim)
	for j, k := range ks {
		s.Push(k.score, k.value)
		if s.M != want[j].M || math.Abs(s.L-want[j].L) > 5e-5 {
			t.Errorf("after key %d: (%v, %v), want (%v, %v)", j+1, s.M, s.L, want[j].M, want[j].L)
		}
		for d := range s.O {
			if math.Abs(s.O[d]-want[j].O[d]) > 5e-4 {
				t.Errorf("after key %d: o = %.3f, want %.3f", j+1, s.O, want[j].O)
			}
		}
	}
}

func TestLSEBases(t *testing.T) {
	s := attn.State[float64]{M: 1, L: math.E}
	if lse := s.LSE(); lse != 2 || math.Abs(float64(lse.Base2())-2*math.Log2E) > 1e-15 {
		t.Errorf("LSE is %v and %v in base 2, want 2 and %v", lse, lse.Base2(), 2*math.Log2E)
	}
	if x := attn.LSE2(3).Natural(); math.Abs(float64(x)-3*math.Ln2) > 1e-15 {
		t.Errorf("2³ has natural LSE %v, want %v", x, 3*math.Ln2)
	}
	if x := attn.LSE(negInf).Base2(); !math.IsInf(float64(x), -1) {
		t.Errorf("an empty LSE is %v in base 2, want -Inf", x)
	}
}

func TestImportedState(t *testing.T) {
	o := []float32{1, 2}
	plusInf := attn.LSE(math.Inf(1))
	if s := attn.FromLSE(plusInf, o, true); !s.Empty() {
		t.Errorf("+Inf that means empty became %v", s)
	}
	if s := attn.FromLSE(plusInf, o, false); s.Empty() {
		t.Errorf("+Inf that means +Inf became empty")
	}
	a, b := attn.FromLSE(attn.LSE(math.Log(3)), o, false), attn.FromLSE(0, []float32{5, 6}, false)
	dst := attn.Empty[float32](2)
	attn.Merge(&dst, a, b)
	if math.Abs(float64(dst.LSE())-math.Log(4)) > 1e-15 || dst.O[0] != 2 || dst.O[1] != 3 {
		t.Errorf("imported states merge to %v, want LSE ln 4 and [2 3]", dst)
	}
}

func TestStatesRow(t *testing.T) {
	s := attn.MakeStates(3, 2)
	if row := s.Row(1); !row.Empty() {
		t.Errorf("a new row is %v, want empty", row)
	}
	s.Set(1, attn.State[float32]{M: 2, L: 3, O: []float32{4, 5}})
	if row := s.Row(1); row.M != 2 || row.L != 3 || !slices.Equal(row.O, []float32{4, 5}) {
		t.Errorf("row 1 is %v after Set", row)
	}
	s.Set(1, attn.SinkState[float32](1))
	if row := s.Row(1); !slices.Equal(row.O, []float32{0, 0}) {
		t.Errorf("a nil o is stored as %v, want zeros", row.O)
	}
}

func TestMergeDoesNotAllocate(t *testing.T) {
	states := make([]attn.State[float32], 200)
	for i := range states {
		states[i] = attn.State[float32]{M: float64(i), L: 1, O: make([]float32, 8)}
	}
	dst := attn.Empty[float32](8)
	if n := testing.AllocsPerRun(10, func() { attn.Merge(&dst, states...) }); n != 0 {
		t.Errorf("Merge allocates %v times", n)
	}
}

// TestLengthsOfO: what an O lacks is zero, as nil is all zeros.
func TestLengthsOfO(t *testing.T) {
	full := attn.State[float64]{L: 1, O: []float64{2, 4}}
	short := attn.State[float64]{L: 1, O: []float64{4}}
	long := attn.State[float64]{L: 1, O: []float64{4, 0, 100}}
	none := attn.State[float64]{L: 1}
	for name, tc := range map[string]struct {
		other attn.State[float64]
		want  []float64
	}{"short": {short, []float64{3, 2}}, "long": {long, []float64{3, 2}}, "nil": {none, []float64{1, 2}}} {
		dst := attn.Empty[float64](2)
		attn.Merge(&dst, full, tc.other)
		if !slices.Equal(dst.O, tc.want) {
			t.Errorf("merged with a %s O: %v, want %v", name, dst.O, tc.want)
		}
	}
	dst := attn.State[float64]{M: negInf, O: []float64{9, 9}}
	attn.Merge(&dst, short)
	if !slices.Equal(dst.O, []float64{4, 0}) {
		t.Errorf("one short O alone: %v, want [4 0]", dst.O)
	}
	var pushed attn.State[float64]
	pushed.M = negInf
	pushed.Push(0, []float64{2})
	pushed.Push(0, []float64{4, 6})
	pushed.Push(0, []float64{})
	if want := []float64{2, 2}; math.Abs(pushed.O[0]-want[0])+math.Abs(pushed.O[1]-want[1]) > 1e-15 {
		t.Errorf("pushed values of 1, 2 and 0 elements: %v, want %v", pushed.O, want)
	}
}

// TestStatesOfNoSize: what cannot be has no rows, and a row that is not there is
// empty and takes nothing.
func TestStatesOfNoSize(t *testing.T) {
	for _, size := range [][2]int{{-1, 2}, {2, -1}, {math.MaxInt, math.MaxInt}, {math.MaxInt, 0}} {
		if s := attn.MakeStates(size[0], size[1]); len(s.M) != 0 || s.ValueDim != 0 {
			t.Errorf("%d rows of %d: %d rows", size[0], size[1], len(s.M))
		}
	}
	s := attn.MakeStates(2, 2)
	s.Set(2, attn.State[float32]{L: 1})
	s.Set(-1, attn.State[float32]{L: 1})
	if row := s.Row(2); !row.Empty() || row.O != nil {
		t.Errorf("row 2 of 2 is %+v, want the empty state", row)
	}
	for name, spoiled := range map[string]attn.States{
		"short m": {ValueDim: 2, M: s.M[:1], L: s.L, O: s.O},
		"short l": {ValueDim: 2, M: s.M, L: s.L[:1], O: s.O},
		"short o": {ValueDim: 2, M: s.M, L: s.L, O: s.O[:3]},
		"dim":     {ValueDim: -2, M: s.M, L: s.L, O: s.O},
	} {
		if err := spoiled.Output(make([]float32, 4), nil, 1, nil); !errors.Is(err, attn.ErrShape) {
			t.Errorf("%s: output: %v, want ErrShape", name, err)
		}
		if err := s.Merge(&s, &spoiled); !errors.Is(err, attn.ErrShape) {
			t.Errorf("%s: merge: %v, want ErrShape", name, err)
		}
	}
}

// BenchmarkMerge merges the states of a row's splits.
func BenchmarkMerge(b *testing.B) {
	for _, splits := range []int{2, 8, 64} {
		b.Run(fmt.Sprintf("splits=%d/dim=128", splits), func(b *testing.B) {
			states := make([]attn.State[float32], splits)
			for i := range states {
				states[i] = attn.State[float32]{M: float64(i % 7), L: 2, O: make([]float32, 128)}
				for d := range states[i].O {
					states[i].O[d] = float32(d)
				}
			}
			dst := attn.State[float32]{O: make([]float32, 128)}
			b.SetBytes(int64(splits * 128 * 4))
			for b.Loop() {
				attn.Merge(&dst, states...)
			}
		})
	}
}
