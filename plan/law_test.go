package plan_test

import (
	"fmt"
	"math"
	"reflect"
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/plan"
	"pgregory.net/rapid"
)

// sequence draws a sequence; one in a few is empty or without a query.
func sequence(t *rapid.T) plan.Seq {
	length := rapid.OneOf(rapid.Just(0), rapid.IntRange(1, 300), rapid.IntRange(1, 40000))
	return plan.Seq{Len: length.Draw(t, "len"), NumQueries: rapid.OneOf(rapid.Just(1), rapid.IntRange(0, 70)).Draw(t, "queries")}
}

// config draws the rules of a step without sequences.
func config(t *rapid.T) plan.Config {
	return plan.Config{
		NumKVHeads: rapid.IntRange(1, 9).Draw(t, "heads"),
		GroupSize:  rapid.IntRange(1, 9).Draw(t, "group"),
		Causal:     rapid.Bool().Draw(t, "causal"),
		Window:     rapid.OneOf(rapid.Just(0), rapid.IntRange(1, 5000)).Draw(t, "window"),
		Width:      rapid.IntRange(1, 200).Draw(t, "width"),
		NumSplits:  rapid.OneOf(rapid.Just(0), rapid.IntRange(1, 100)).Draw(t, "splits"),
		Invariant:  rapid.Bool().Draw(t, "invariant"),
		QueryTile:  rapid.OneOf(rapid.Just(0), rapid.IntRange(1, 40)).Draw(t, "tile"),

		MinKeysPerSplit: leastKeys(t),
		HeadTile:        rapid.IntRange(0, 10).Draw(t, "head tile"),
	}
}

// leastKeys draws a least number of keys per split.
func leastKeys(t *rapid.T) int {
	return rapid.OneOf(rapid.Just(0), rapid.IntRange(plan.LeastKeysPerSplit, 5000)).Draw(t, "least keys")
}

func step(t *rapid.T) plan.Config {
	cfg := config(t)
	cfg.Seqs = rapid.SliceOfN(rapid.Custom(sequence), 0, 12).Draw(t, "seqs")
	return cfg
}

// covers counts, for every query and KV head, how often each key is in an item
// of that query: exactly once for the keys that the rules show it. It knows
// nothing of units, so it is a second opinion beside [plan.Plan.Check].
func covers(p *plan.Plan) error {
	cfg := &p.Config
	rule := attn.Options{Causal: cfg.Causal, Window: cfg.Window}
	type place struct{ seq, head, query int }
	seen := make(map[place][][2]int)
	for _, it := range p.Items {
		for q := it.Query; q < it.Query+it.NumQueries; q++ {
			at := place{it.Seq, it.Head, q}
			seen[at] = append(seen[at], [2]int{it.Begin, it.End})
		}
	}
	for i, s := range cfg.Seqs {
		for head := range cfg.NumKVHeads {
			for q := range s.NumQueries {
				lo, hi := rule.Span(s.Len, s.NumQueries, q)
				if err := once(seen[place{i, head, q}], s.Len, lo, hi); err != nil {
					return fmt.Errorf("sequence %d, head %d, query %d: %w", i, head, q, err)
				}
			}
		}
	}
	return nil
}

// once reports whether the ranges lie within the length, do not overlap, and
// hold all of [lo, hi).
func once(ranges [][2]int, length, lo, hi int) error {
	visible := 0
	for i, r := range ranges {
		if r[0] < 0 || r[1] <= r[0] || r[1] > length {
			return fmt.Errorf("range %v of %d keys", r, length)
		}
		for _, other := range ranges[:i] {
			if r[0] < other[1] && other[0] < r[1] {
				return fmt.Errorf("ranges %v and %v overlap", r, other)
			}
		}
		visible += max(0, min(r[1], hi)-max(r[0], lo))
	}
	if visible != hi-lo {
		return fmt.Errorf("%v hold %d of the keys [%d, %d)", ranges, visible, lo, hi)
	}
	return nil
}

// rowsApart reports whether no row of partial states is used twice, and none
// beyond Rows.
func rowsApart(p *plan.Plan) error {
	used := make([]bool, p.Rows)
	for i, it := range p.Items {
		if it.Row == plan.Whole {
			continue
		}
		for row := it.Row; row < it.Row+it.NumQueries*p.Config.GroupSize; row++ {
			if row < 0 || row >= len(used) || used[row] {
				return fmt.Errorf("item %d of %+v: row %d of %d is outside or used twice", i, it, row, p.Rows)
			}
			used[row] = true
		}
	}
	for row, used := range used {
		if !used {
			return fmt.Errorf("row %d of %d is unused", row, p.Rows)
		}
	}
	return nil
}

// visible is how many keys any query of a tile sees, counted query by query.
func visible(cfg *plan.Config, u plan.Unit) int {
	rule := attn.Options{Causal: cfg.Causal, Window: cfg.Window}
	s := cfg.Seqs[u.Seq]
	begin, end := s.Len, 0
	for q := u.Query; q < u.Query+u.NumQueries; q++ {
		if lo, hi := rule.Span(s.Len, s.NumQueries, q); lo < hi {
			begin, end = min(begin, lo), max(end, hi)
		}
	}
	return max(0, end-begin)
}

// obeys checks everything a plan promises.
func obeys(p *plan.Plan) error {
	for _, check := range []func(*plan.Plan) error{(*plan.Plan).Check, covers, rowsApart} {
		if err := check(p); err != nil {
			return err
		}
	}
	for i, u := range p.Units {
		keys := visible(&p.Config, u)
		if u.End-u.Begin != keys {
			return fmt.Errorf("unit %d of %+v: want %d keys", i, u, keys)
		}
		if n := p.Config.NumSplits; n > 0 && u.NumSplits != min(n, keys) {
			return fmt.Errorf("unit %d of %+v: want %d splits of %d keys", i, u, n, keys)
		}
		if n := chosenLeast(&p.Config); u.NumSplits > 1 && keys < n*u.NumSplits {
			return fmt.Errorf("unit %d of %+v: splits of less than %d keys in the mean", i, u, n)
		}
	}
	for i := 1; i < len(p.Items); i++ {
		a, b := p.Items[i-1], p.Items[i]
		if p.Work(a) < p.Work(b) || p.Work(a) == p.Work(b) && (a.Unit > b.Unit || a.Unit == b.Unit && a.Begin >= b.Begin) {
			return fmt.Errorf("item %+v comes before %+v", a, b)
		}
	}
	return nil
}

// chosenLeast is the least number of keys of a split that the plan is free to
// choose; 0 where it is not.
func chosenLeast(cfg *plan.Config) int {
	if cfg.NumSplits > 0 || cfg.Invariant {
		return 0
	}
	if cfg.MinKeysPerSplit > 0 {
		return cfg.MinKeysPerSplit
	}
	return leastPart
}

func TestEveryKeyOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, err := plan.New(step(t))
		if err != nil {
			t.Fatal(err)
		}
		if err := obeys(p); err != nil {
			t.Fatal(err)
		}
	})
}

func TestSamePlanTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := step(t)
		a, _ := plan.New(cfg)
		b, _ := plan.New(cfg)
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("two plans of %+v differ", cfg)
		}
	})
}

// borders are the ends of a sequence's items, by KV head, query and first key.
func borders(p *plan.Plan, seq int) map[[3]int]int {
	ends := make(map[[3]int]int)
	for _, it := range p.Items {
		if it.Seq == seq {
			ends[[3]int{it.Head, it.Query, it.Begin}] = it.End
		}
	}
	return ends
}

// TestInvariantBorders plans a sequence alone, and at any place among 63 others
// at any width, on a machine that was tuned otherwise.
func TestInvariantBorders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := config(t)
		cfg.Invariant, cfg.NumSplits = true, 0
		mine := sequence(t)
		cfg.Seqs = []plan.Seq{mine}
		alone, err := plan.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Seqs = rapid.SliceOfN(rapid.Custom(sequence), 64, 64).Draw(t, "others")
		at := rapid.IntRange(0, 63).Draw(t, "place")
		cfg.Seqs[at] = mine
		cfg.Width = rapid.IntRange(1, 200).Draw(t, "other width")
		cfg.MinKeysPerSplit, cfg.HeadTile = leastKeys(t), rapid.IntRange(0, 10).Draw(t, "other head tile")
		among, err := plan.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := borders(alone, 0), borders(among, at); !reflect.DeepEqual(a, b) {
			t.Fatalf("alone %v, among others %v", a, b)
		}
	})
}

// FuzzPlan gives New any numbers, as long as the naive checks can follow: it
// returns an error or a plan that obeys.
func FuzzPlan(f *testing.F) {
	f.Add(300, 1, 40000, 3, 2, 4, true, 100, 31, 0, false, 0)
	f.Add(0, 1, 0, 0, 1, 1, false, 0, 1, 2, true, 1)
	f.Add(4096, 70, 1, 5, 3, 7, true, 31, 132, 0, false, 16)
	f.Add(-1, 1, math.MaxInt, 100, 8, -5, false, -1, 0, -1, true, math.MaxInt)
	f.Add(min(1<<40, math.MaxInt), 9, 3, 9, 8, 1<<20, false, math.MaxInt, 1<<16, 0, false, math.MaxInt)
	f.Fuzz(func(t *testing.T, len0, queries0, len1, queries1, heads, group int, causal bool, window, width, splits int, invariant bool, tile int) {
		if max(queries0, queries1) > 200 || heads > 20 || splits > 500 {
			t.Skip("more units or items than the checks can follow")
		}
		p, err := plan.New(plan.Config{
			Seqs:       []plan.Seq{{Len: len0, NumQueries: queries0}, {Len: len1, NumQueries: queries1}},
			NumKVHeads: heads, GroupSize: group, Causal: causal, Window: window,
			Width: width, NumSplits: splits, Invariant: invariant, QueryTile: tile,
		})
		if err != nil || len(p.Items) > 5000 || p.Rows > 1<<20 {
			return
		}
		if err := obeys(p); err != nil {
			t.Fatal(err)
		}
	})
}
