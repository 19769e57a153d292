package main

import (
	"encoding/csv"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/flashdec/flashdec/kv"
)

// TestBenchRows runs a small suite and checks the fields that machines read.
func TestBenchRows(t *testing.T) {
	rows := objects(t, want(t, exitDone, "bench", "--suite=pages", "--match=16", "--mb=1", "--rounds=2", "--threads=2", "--json").stdout)
	var names []string
	for _, row := range rows {
		names = append(names, row["impl"].(string))
		for _, field := range []string{
			"suite", "case", "backend", "impl", "batch", "q_heads", "kv_heads", "key_dim", "value_dim", "len", "q_len", "kv_dtype", "page_size", "threads",
			"splits", "seconds", "seconds_min", "kv_bytes", "bytes_per_second", "ceiling_bytes_per_second", "share", "gpus", "device", "commit",
		} {
			if _, ok := row[field]; !ok {
				t.Errorf("%v has no %q", row["impl"], field)
			}
		}
		rate, share := row["bytes_per_second"].(float64), row["share"].(float64)
		if rate <= 0 || share != rate/row["ceiling_bytes_per_second"].(float64) || row["seconds"].(float64) < row["seconds_min"].(float64) {
			t.Errorf("%v: rate %v, share %v, of %v", row["impl"], rate, share, row)
		}
	}
	if all := []string{"flashdec", "unsplit", "direct", "plain"}; !slices.Equal(names, all) {
		t.Errorf("measured %v, want %v", names, all)
	}
}

func TestBenchForms(t *testing.T) {
	text := want(t, exitDone, "bench", "--suite=window", "--mb=4", "--rounds=1", "--threads=1").stdout
	for _, say := range []string{"window 1024 of", "flashdec", "unsplit", "plain", "of ceiling"} {
		if !strings.Contains(text, say) {
			t.Errorf("the table lacks %q:\n%s", say, text)
		}
	}
	records, err := csv.NewReader(strings.NewReader(want(t, exitDone, "bench", "--suite=window", "--mb=4", "--rounds=1", "--threads=1", "--csv").stdout)).ReadAll()
	if err != nil || len(records) != 1+3*4 {
		t.Errorf("%d records of comma-separated values, %v, want a header and 3 cases × 4", len(records), err)
	}
}

// TestSuites lays out every case of every suite in as little memory as it takes,
// and checks what it says of its size.
func TestSuites(t *testing.T) {
	const bytes = 1 << 20
	for _, name := range slices.Sorted(maps.Keys(suites)) {
		cases := suites[name](bytes)
		if len(cases) == 0 && name != "decode" {
			t.Errorf("suite %s has no case", name)
		}
		for _, c := range cases {
			if c.storedBytes() > 1<<22 {
				continue // sized by its own rule, not by the bytes given
			}
			a, err := newArena(2 * c.storedBytes())
			if err != nil {
				t.Fatal(err)
			}
			views, err := a.views(&c)
			if err != nil {
				t.Errorf("suite %s, %s: %v", name, c.name, err)
				continue
			}
			if err := a.close(); err != nil {
				t.Error(err)
			}
			if got := len(views[0].Seqs); got != len(c.lens) {
				t.Errorf("suite %s, %s: a view of %d sequences, want %d", name, c.name, got, len(c.lens))
			}
		}
	}
	window := benchCase{kvHeads: 2, dim: 4, lens: []int{100, 5}, queries: 1, dtype: kv.F16, window: 10}
	if window.keys() != 15 || window.kvBytes() != 15*2*2*8 {
		t.Errorf("a window of 10 on 100 and 5 keys reads %d keys, %d bytes", window.keys(), window.kvBytes())
	}
}

func TestMedian(t *testing.T) {
	for want, x := range map[float64][]float64{3: {9, 3, 1}, 2.5: {4, 1, 3, 2}, 7: {7}} {
		if got := median(x); got != want {
			t.Errorf("median of %v is %v, want %v", x, got, want)
		}
	}
}

func TestBenchRefuses(t *testing.T) {
	for _, tc := range []struct{ flag, says string }{
		{"--suite=nothing", "--suite"},
		{"--threads=-1", "--threads is -1"},
		{"--mb=0", "--mb is 0"},
		{"--rounds=0", "--rounds is 0"},
		{"--match=no such case", "no such case"},
	} {
		if got := want(t, exitBadInput, "bench", tc.flag); !strings.Contains(got.errs, tc.says) {
			t.Errorf("%s: %q, want it to say %q", tc.flag, got.errs, tc.says)
		}
	}
	if got := want(t, exitBadInput, "bench", "--suite=blog", "--mb=1"); !strings.Contains(got.errs, "see --mb") {
		t.Errorf("an arena that is too small: %q", got.errs)
	}
}
