package main

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/flashdec/flashdec/internal/bench"
	"github.com/flashdec/flashdec/kv"
)

// TestBenchTellsOfCaches: once, where what is measured is not memory, and where the system tells of its caches.
func TestBenchTellsOfCaches(t *testing.T) {
	const told = "flashdec: keys and values of 2.1 MB (--mb, --quick) fit into the processors' last caches of 33.6 MB: times are of these, not of memory\n"
	for _, c := range []struct {
		cmd    benchCmd
		caches int
		told   string
	}{
		{benchCmd{MB: 2}, 32 << 20, told},
		{benchCmd{MB: 32}, 32<<20 - 1, ""},
		{benchCmd{MB: 2}, 2 << 20, strings.Replace(told, "33.6", "2.1", 1)},
		{benchCmd{MB: 2, Backend: "cuda"}, 32 << 20, ""},
		{benchCmd{MB: 2}, 0, ""},
		{benchCmd{MB: 512, Quick: true}, 128 << 20, strings.NewReplacer("2.1", "67.1", "33.6", "134.2").Replace(told)},
	} {
		var errs strings.Builder
		if c.cmd.tellCached(newTerminal(io.Discard, &errs), c.caches); errs.String() != c.told {
			t.Errorf("%+v beside caches of %d: told %q, want %q", c.cmd, c.caches, &errs, c.told)
		}
	}
	var errs bytes.Buffer
	args := []string{"bench", "--suite=window,lengths", "--match=1024", "--mb=8", "--rounds=1", "--threads=1"}
	code := run(t.Context(), args, io.Discard, &errs)
	if n, want := len(cachedLine.FindAllString(errs.String(), -1)), bench.LastCaches(1) >= 8<<20; code != exitDone || n > 1 || (n == 1) != want {
		t.Errorf("exit %d, told %d times, want once: %t", code, n, want)
	}
}

// TestMatchTakesWholeWords: f16 is not bf16, nor group 1 a group 16; what a name is matched with may go over
// several of its words.
func TestMatchTakesWholeWords(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want       bool
	}{
		{"f16, group 4, dim 128", "f16", true},
		{"bf16, group 4, dim 128", "f16", false},
		{"avx2, f16, group 4, dim 128", "f16", true},
		{"bf16, f16", "f16", true}, // the second time
		{"f16, group 16, dim 128", "group 1", false},
		{"f16, group 4, dim 128", "group 4, dim", true},
		{"f16, group 4, dim 128", "dim 12", false},
		{"64 × 2048 keys", "64 × 2048", true},
		{"batch 1, 32/8 heads, 1024 keys, dim 128", "8 heads", true},
		{"pages of 16, in order", "pages of 16", true},
		{"contiguous", "", true},
		{"f16, group 4, dim 64", "f16 group 4", true},
		{"f16, group 4, dim 64", "f16, dim 64", true},
		{"f16, group 4, dim 64", "f16 dim 64", false}, // not side by side
		{"f16, group 4, dim 64", "f16, dim 128", false},
		{"f16, group 4, dim 64", "GROUP 4", true},
		{"1024 keys", "1K", true},
		{"1048576 keys", "1m keys", true},
		{"1 × 131072 keys", "128K", true},
		{"1024 keys", "k", false},
		{"1024 keys", "1", false},
		{"1000 keys", "1K", false},
		{"0 keys", "99999999999999999999K", false}, // more than a number holds
	} {
		if got := hasWords(tc.name, tc.text); got != tc.want {
			t.Errorf("%q has %q: %t, want %t", tc.name, tc.text, got, tc.want)
		}
	}
	cmd := &benchCmd{Suite: []string{"types"}, Backend: "cpu", Match: "f16", MB: 64}
	turns, err := cmd.runs()
	if err != nil || len(turns) == 0 {
		t.Fatalf("%d groups of runs, %v", len(turns), err)
	}
	for _, r := range slices.Concat(turns...) {
		if r.c.DType != kv.F16 {
			t.Errorf("--match f16 takes %q", r.c.Name)
		}
	}
}

// TestMatchOfWhatDoesNotFit: the name is right, and --mb too small.
func TestMatchOfWhatDoesNotFit(t *testing.T) {
	refuses(t, []string{`"1048576 keys"`, "does not fit into 1.0 MB", "--mb"}, "bench", "--suite=lengths", "--mb=1", "--match=1048576 keys")
	refuses(t, []string{`such as "f32, group 1, dim 128"`}, "bench", "--mb=64", "--match=group 5")
}

// TestMatchWantsAWord: blanks and commas stand in every name, and choose nothing.
func TestMatchWantsAWord(t *testing.T) {
	for _, match := range []string{" ", ",", ", "} {
		refuses(t, []string{"want whole words"}, "bench", "--suite=lengths", "--mb=16", "--rounds=1", "--match="+match)
	}
}

// TestWhatThereIsToMatchIsShort: an error names what tells cases apart, each once, and no more than one can read.
func TestWhatThereIsToMatchIsShort(t *testing.T) {
	errs := want(t, exitBadInput, "bench", "--suite=all", "--match=nosuch").errs
	if strings.Count(errs, "; dim 128") != 1 || len(errs) > 500 {
		t.Errorf("%d bytes: %q", len(errs), errs)
	}
}
