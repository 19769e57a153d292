package plan_test

import (
	"strings"
	"testing"

	"github.com/flashdec/flashdec/plan"
)

// TestEverySplitCount forces every number of splits from 1 to beyond the number
// of keys, with lengths that no tile divides. A chunk that is no multiple of the
// tile is where keys are read twice.
func TestEverySplitCount(t *testing.T) {
	const length = 500
	for n := 1; n <= length+1; n++ {
		p := mustNew(t, plan.Config{Seqs: lens(length), NumKVHeads: 1, GroupSize: 1, Width: 4, NumSplits: n})
		if err := obeys(p); err != nil {
			t.Fatalf("%d splits: %v", n, err)
		}
		shortest, longest := length, 0
		for _, it := range p.Items {
			shortest, longest = min(shortest, it.End-it.Begin), max(longest, it.End-it.Begin)
		}
		if len(p.Items) != min(n, length) || longest-shortest > 1 {
			t.Errorf("%d splits asked: %d items of %d to %d keys", n, len(p.Items), shortest, longest)
		}
	}
}

// TestNothingToDo plans steps without work: no items, and no division by the
// number of anything.
func TestNothingToDo(t *testing.T) {
	for _, tc := range []struct {
		name  string
		seqs  []plan.Seq
		units int
	}{
		{"no sequence", nil, 0},
		{"no query", []plan.Seq{{Len: 5}, {Len: 7}}, 0},
		{"no key", lens(0, 0, 0), 6},
		{"neither", []plan.Seq{{}, {}}, 0},
		{"queries before the first key", []plan.Seq{{Len: 0, NumQueries: 3}}, 2},
	} {
		for _, cfg := range []plan.Config{{}, {NumSplits: 3}, {Invariant: true}, {Causal: true, Window: 1}} {
			cfg.Seqs, cfg.NumKVHeads, cfg.GroupSize, cfg.Width = tc.seqs, 2, 4, 132
			p := mustNew(t, cfg)
			if len(p.Items) != 0 || p.Rows != 0 || len(p.Units) != tc.units {
				t.Errorf("%s: %d items, %d rows, %d units, want %d units only", tc.name, len(p.Items), p.Rows, len(p.Units), tc.units)
			}
			if !strings.HasPrefix(p.Reason, "nothing to do") || p.Balance() != 1 {
				t.Errorf("%s: balance %v, %q", tc.name, p.Balance(), p.Reason)
			}
			for _, u := range p.Units {
				if u.NumSplits != 0 || u.Row != plan.Whole {
					t.Errorf("%s: unit %+v, want no split", tc.name, u)
				}
			}
		}
	}
}

// TestEmptyAmongOthers has sequences without keys between those with: they cost
// no item, and change nothing for the rest.
func TestEmptyAmongOthers(t *testing.T) {
	cfg := plan.Config{Seqs: lens(0, 9000, 0, 0, 500, 0), NumKVHeads: 2, GroupSize: 4, Width: 16}
	with := mustNew(t, cfg)
	cfg.Seqs = lens(9000, 500)
	without := mustNew(t, cfg)
	if len(with.Items) != len(without.Items) || with.Rows != without.Rows {
		t.Errorf("%d items and %d rows, want the %d and %d without empty sequences",
			len(with.Items), with.Rows, len(without.Items), without.Rows)
	}
	for i, it := range with.Items {
		if other := without.Items[i]; it.Begin != other.Begin || it.End != other.End || it.Row != other.Row {
			t.Errorf("item %d is %+v, want %+v", i, it, other)
		}
	}
}

// TestWindowLeavesFewerKeys forces splits where the window leaves few keys: a
// split without a key would overwrite the others' result.
func TestWindowLeavesFewerKeys(t *testing.T) {
	for _, window := range []int{1, 2, 3, 31, 32, 63, 64, 65, 128} {
		for _, splits := range []int{0, 1, 2, 3, 8, 200} {
			p := mustNew(t, plan.Config{
				Seqs: lens(4096), NumKVHeads: 1, GroupSize: 2, Causal: true,
				Window: window, Width: 8, NumSplits: splits,
			})
			if err := obeys(p); err != nil {
				t.Fatalf("window %d, %d splits: %v", window, splits, err)
			}
			if u := p.Units[0]; u.Begin != 4096-window || u.End != 4096 {
				t.Errorf("window %d: keys [%d, %d), want the last %d of 4096", window, u.Begin, u.End, window)
			}
			if splits == 0 && window <= 128 && len(p.Items) != 1 {
				t.Errorf("window %d is cut into %d items", window, len(p.Items))
			}
		}
	}
}

// TestGroupIsNeverCut has a group of 7, which no tile of queries × heads of a
// power of two holds: items must hold whole tokens with all heads of the group,
// and every KV head must be cut alike.
func TestGroupIsNeverCut(t *testing.T) {
	for queries := 1; queries <= 17; queries++ {
		for _, tile := range []int{0, 1, 2, 3, 16} {
			seqs := concat(equal(8, 8192), equal(100, 1024))
			for i := range seqs {
				seqs[i].NumQueries = queries
			}
			p := mustNew(t, plan.Config{Seqs: seqs, NumKVHeads: 4, GroupSize: 7, Causal: true, Width: 132, QueryTile: tile})
			if err := rowsApart(p); err != nil {
				t.Fatal(err)
			}
			for i := 0; i < len(p.Units); i += 4 {
				for head, u := range p.Units[i : i+4] {
					first := p.Units[i]
					if u.Head != head || u.Seq != first.Seq || u.Query != first.Query || u.NumSplits != first.NumSplits {
						t.Fatalf("unit %d of %+v is cut unlike %+v", i+head, u, first)
					}
				}
			}
		}
	}
}

// TestRowsPerQuery has two queries a sequence: rows of partial states are
// counted in query rows, not sequences, and the step is cut as with one query.
func TestRowsPerQuery(t *testing.T) {
	cfg := plan.Config{Seqs: equal(33, 4096), NumKVHeads: 8, GroupSize: 4, Causal: true, Width: 128, NumSplits: 3}
	for i := range cfg.Seqs {
		cfg.Seqs[i].NumQueries = 2
	}
	p := mustNew(t, cfg)
	if want := 33 * 8 * 3 * 2 * 4; p.Rows != want {
		t.Errorf("%d rows of partial states, want %d", p.Rows, want)
	}
	if err := rowsApart(p); err != nil {
		t.Error(err)
	}
	cfg.Seqs, cfg.NumSplits = []plan.Seq{{Len: 4096, NumQueries: 2}}, 0
	if p := mustNew(t, cfg); len(p.Items) < 120 {
		t.Errorf("two queries leave %d items for 128 processors", len(p.Items))
	}
}

// TestOddWidths: one sequence spreads over any number of threads, and more
// threads never end later.
func TestOddWidths(t *testing.T) {
	for _, heads := range []int{1, 2, 8} {
		for _, length := range []int{512, 8192, 131072} {
			before := 0
			for _, width := range []int{1, 3, 7, 15, 16, 31} {
				p := mustNew(t, plan.Config{Seqs: lens(length), NumKVHeads: heads, GroupSize: 4, Width: width})
				end := maxLoad(p)
				if before > 0 && end > before {
					t.Errorf("%d keys × %d heads: %d threads end at %d, fewer at %d", length, heads, width, end, before)
				}
				before = end
				if length >= 8192 && p.Balance() < 0.9 {
					t.Errorf("%d keys × %d heads on %d threads: %s", length, heads, width, p)
				}
			}
		}
	}
}

// TestWholeWhereEven leaves units uncut that fill the processors by themselves,
// cuts a last wave that would run alone, and cuts long units once where there is
// one a processor, so that the others can help a slow one.
func TestWholeWhereEven(t *testing.T) {
	for _, tc := range []struct {
		seqs  []plan.Seq
		width int
		cut   bool
	}{
		{equal(64, 2048), 2, false},
		{equal(64, 2048), 132, false},
		{equal(3, 4096), 2, true},
		{equal(17, 8192), 132, true},
		{lens(131072), 8, true},
		{lens(131072), 1, false},
		{lens(131072), 132, true},
	} {
		heads := 8
		if tc.width == 2 {
			heads = 1
		}
		p := mustNew(t, plan.Config{Seqs: tc.seqs, NumKVHeads: heads, GroupSize: 4, Width: tc.width})
		if cut := len(p.Items) > len(p.Units); cut != tc.cut {
			t.Errorf("%s", p)
		}
	}
}

// TestLongAmongShort cuts the long sequence as far as needed and no other.
func TestLongAmongShort(t *testing.T) {
	for _, short := range []int{16, 200, 1024} {
		p := mustNew(t, plan.Config{
			Seqs: concat(lens(131072), equal(63, short)), NumKVHeads: 8, GroupSize: 4, Width: 132,
		})
		for _, u := range p.Units {
			if cut := u.NumSplits > 1; cut != (u.Seq == 0) {
				t.Errorf("sequence %d of %d keys has %d splits", u.Seq, u.End, u.NumSplits)
			}
		}
		if p.Balance() < 0.9 {
			t.Errorf("%s", p)
		}
	}
}

// TestInvariantSplits: what a sequence gets by its length, and by the heads and
// queries that already make items of it.
func TestInvariantSplits(t *testing.T) {
	for _, tc := range []struct{ length, heads, group, queries, want int }{
		{1, 1, 1, 1, 1},
		{511, 1, 1, 1, 1},
		{512, 1, 1, 1, 2},
		{1023, 1, 1, 1, 2},
		{1024, 1, 1, 1, 4},
		{4096, 1, 1, 1, 16},
		{16384, 1, 1, 1, 64},
		{32768, 1, 1, 1, 64},
		{65536, 1, 1, 1, 128},
		{2048, 8, 4, 1, 8},
		{4096, 8, 4, 1, 8},
		{8192, 8, 4, 1, 16},
		{131072, 1, 16, 1, 256},
		{1 << 20, 1, 1, 1, 256},
		{1 << 20, 1, 17, 1, 128},
		{1 << 20, 8, 4, 1, 32},
		{1 << 20, 8, 4, 5, 16},
		{1 << 20, 5, 4, 1, 32},
		{1 << 20, 300, 1, 1, 1},
	} {
		cfg := plan.Config{Seqs: []plan.Seq{{Len: tc.length, NumQueries: tc.queries}}, NumKVHeads: tc.heads, GroupSize: tc.group, Width: 7, Invariant: true}
		if beyond32Bits(cfg) {
			continue
		}
		p := mustNew(t, cfg)
		if p.Units[0].NumSplits != tc.want {
			t.Errorf("%+v: %d splits", tc, p.Units[0].NumSplits)
		}
	}
}

// TestInvariantIsNearFree compares the ends of invariant and chosen splits where
// the latter can spread. Of many processors half read nearly as fast as all.
func TestInvariantIsNearFree(t *testing.T) {
	for _, width := range []int{1, 2, 8, 16, 32, 64, 132} {
		for _, seqs := range [][]plan.Seq{lens(4096), lens(16384), lens(131072), lens(1 << 20), equal(64, 2048), concat(lens(131072), equal(63, 1024))} {
			cfg := plan.Config{Seqs: seqs, NumKVHeads: 8, GroupSize: 4, Width: width}
			few := width
			if width > 128 {
				few = width * 17 / 32
			}
			end := func() int {
				p := mustNew(t, cfg)
				return maxLoad(p) * max(min(len(p.Items), width), few) / few
			}
			free := end()
			cfg.Invariant = true
			if end := end(); end > free+free/10 {
				t.Errorf("width %d, longest %d: ends at %d, free at %d", width, seqs[0].Len, end, free)
			}
		}
	}
}
