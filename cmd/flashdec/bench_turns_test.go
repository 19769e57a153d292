package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/flashdec/flashdec/kv"
)

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
