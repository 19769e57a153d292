package main

import (
	"context"
	"io"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var planArgs = []string{"plan", "--q-heads=32", "--kv-heads=8", "--head-dim=128"}

func planOf(t *testing.T, args ...string) map[string]any {
	t.Helper()
	return objects(t, want(t, exitDone, append(slices.Concat(planArgs, []string{"--json"}), args...)...).stdout)[0]
}

func TestPlanText(t *testing.T) {
	for name, args := range map[string][]string{
		"plan.txt":       {"--lens=9000,100,0x3,700x2", "--width=4", "--splits=6"},
		"plan-empty.txt": {"--lens=0x5"},
	} {
		told := want(t, exitDone, append(slices.Clone(planArgs), args...)...).stdout
		fits(t, told)
		// The reason is worded, and tested, in package plan.
		before, after, _ := strings.Cut(told, "why: ")
		reason, after, _ := strings.Cut(after, "\n\n")
		if reason == "" {
			t.Errorf("%v: no reason given", args)
		}
		golden(t, name, before+"why: …\n\n"+after)
	}
}

// Many processors are a character each, and the one long sequence is cut.
func TestPlanForAGPU(t *testing.T) {
	told := want(t, exitDone, append(slices.Clone(planArgs), "--lens=131072,16x63")...).stdout
	fits(t, told)
	if n := strings.Count(told, "█"); n < 66 || !strings.Contains(told, "each of 132 processors") {
		t.Errorf("%d full processors of 132, want most of them:\n%s", n, told)
	}
	if p := planOf(t, "--lens=131072,16x63"); p["balance"].(float64) < 0.9 || p["uncut_load"].(float64) < 10*p["max_load"].(float64) {
		t.Errorf("balance %v, highest load %v, uncut %v, want an even plan", p["balance"], p["max_load"], p["uncut_load"])
	}
}

// TestPlanHasDefaults: with lengths alone it plans the heads that trace makes up.
func TestPlanHasDefaults(t *testing.T) {
	if diff := cmp.Diff(planOf(t, "--lens=5000,16x3"), objects(t, want(t, exitDone, "plan", "--lens=5000,16x3", "--json").stdout)[0]); diff != "" {
		t.Errorf("planned without heads (-32 on 8 of dim 128, +without):\n%s", diff)
	}
	for _, flag := range []string{"q-heads", "kv-heads", "head-dim"} {
		if plan, trace := defaultOf(t, "plan", flag), defaultOf(t, "trace", flag); plan != trace || plan == "" {
			t.Errorf("--%s is %q unless given to plan, %q to trace, want the same", flag, plan, trace)
		}
	}
}

// defaultOf is what a flag is where it is not given.
func defaultOf(t *testing.T, verb, flag string) string {
	t.Helper()
	parser, err := newParser(&interrupt{}, newTerminal(io.Discard, io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range parser.Model.Leaves(true) {
		for _, f := range v.Flags {
			if v.Name == verb && f.Name == flag {
				return f.Default
			}
		}
	}
	t.Fatalf("%s has no --%s", verb, flag)
	return ""
}

func TestPlanFieldNames(t *testing.T) {
	p := planOf(t, "--lens=131072,16x63")
	wanted := []string{
		"balance", "head_dim", "items", "keys_read", "kv_heads", "max_load", "num_items", "processors", "q_heads", "reason", "sequences",
		"state_rows", "uncut_load", "units", "width", "work",
	}
	if diff := cmp.Diff(wanted, slices.Sorted(maps.Keys(p))); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
}

// The items are the whole work, each on one processor, and processors add up to it.
func TestPlanAddsUp(t *testing.T) {
	for _, args := range [][]string{
		{"--lens=131072,16x63"},
		{"--lens=5000,4000x3", "--window=128", "--causal", "--width=7"},
		{"--lens=300x9", "--q-len=5", "--causal", "--invariant", "--width=3"},
		{"--lens=1", "--splits=64"},
	} {
		p := planOf(t, args...)
		keys := make([]float64, int(p["width"].(float64)))
		for _, item := range p["items"].([]any) {
			it := item.(map[string]any)
			keys[int(it["processor"].(float64))] += it["end"].(float64) - it["begin"].(float64)
		}
		sum := 0.0
		for i, who := range p["processors"].([]any) {
			if got := who.(map[string]any)["keys"].(float64); got != keys[i] {
				t.Errorf("%v: processor %d has %v keys, its items %v", args, i, got, keys[i])
			}
			sum += keys[i]
		}
		units := 0.0
		for _, kind := range p["work"].([]any) {
			k := kind.(map[string]any)
			units += k["units"].(float64) * (k["end"].(float64) - k["begin"].(float64))
		}
		if sum != p["keys_read"] || sum != units {
			t.Errorf("%v: %v keys in items, %v in units, %v in all", args, sum, units, p["keys_read"])
		}
	}
}

// largestWrite is a standard output that remembers the largest of its writes.
type largestWrite struct{ bytes, most int }

func (w *largestWrite) Write(p []byte) (int, error) {
	w.bytes += len(p)
	w.most = max(w.most, len(p))
	return len(p), nil
}

// The items of a plan are written as they are made, not held as text.
func TestPlanStreams(t *testing.T) {
	var stdout largestWrite
	args := append(slices.Clone(planArgs), "--lens=9000x10000", "--json")
	if code := run(context.Background(), args, &stdout, io.Discard); code != exitDone {
		t.Fatalf("exit %d", code)
	}
	if stdout.bytes < 1<<20 || stdout.most > 1<<17 {
		t.Errorf("%d bytes, %d of them in one piece, want more than 1 MB in small ones", stdout.bytes, stdout.most)
	}
}

func TestPlanRefuses(t *testing.T) {
	for _, c := range []struct {
		args  []string
		words []string
	}{
		{[]string{"--lens="}, []string{"--lens", "131072,16x63"}},
		{[]string{"--lens=5,,6"}, []string{"--lens", `""`}},
		{[]string{"--lens=-5"}, []string{"--lens", `"-5"`}},
		{[]string{"--lens=16x"}, []string{"--lens", `"16x"`}},
		{[]string{"--lens=16x0"}, []string{"--lens", "below 1"}},
		{[]string{"--lens=1x2x3"}, []string{"--lens", `"2x3"`}},
		{[]string{"--lens=99999999999999999999"}, []string{"--lens", "out of range"}},
		{[]string{"--lens=1x1048577"}, []string{"--lens", "1048576"}},
		{[]string{"--lens=9223372036854775807"}, []string{"9223372036854775807 keys"}},
		{[]string{"--lens=5", "--width=0"}, []string{"width", "0"}},
		{[]string{"--lens=5", "--window=-1"}, []string{"window", "-1"}},
		{[]string{"--lens=5", "--splits=-1"}, []string{"splits", "-1"}},
		{[]string{"--lens=5", "--q-len=-1"}, []string{"queries", "-1"}},
		{[]string{"--lens=5", "--kv-heads=5"}, []string{"32 query heads", "5 KV heads"}},
		{[]string{"--lens=5", "--head-dim=0"}, []string{"dim", "0"}},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) { refuses(t, c.words, append(slices.Clone(planArgs), c.args...)...) })
	}
}

func TestParseLens(t *testing.T) {
	for list, wanted := range map[string][]int{
		"7": {7}, "0": {0}, "3x2,1": {3, 3, 1}, " 5 , 6x1 ": {5, 6}, "0x2": {0, 0},
	} {
		got, err := parseLens(list)
		if err != nil {
			t.Errorf("%q: %v", list, err)
		}
		if diff := cmp.Diff(wanted, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", list, diff)
		}
	}
}

// FuzzLens: any text is a bounded list of lengths or a one-line error.
func FuzzLens(f *testing.F) {
	for _, s := range []string{"131072,16x63", "1x1000000000", "x", ",", "5x-1", "1048576x1048576,1", "１x２"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, list string) {
		lens, err := parseLens(list)
		if err != nil {
			if strings.Contains(oneLine(err), "\n") {
				t.Fatalf("%q: %q has several lines", list, oneLine(err))
			}
			return
		}
		if len(lens) == 0 || len(lens) > maxSequences {
			t.Fatalf("%q: %d lengths", list, len(lens))
		}
		for _, n := range lens {
			if n < 0 {
				t.Fatalf("%q: length %d", list, n)
			}
		}
	})
}

func TestPlanKnowsItsTypes(t *testing.T) {
	refuses(t, []string{"--kv-dtype", `"f8"`, "int4"}, "plan", "--lens=9", "--q-heads=2", "--kv-heads=1", "--head-dim=8", "--kv-dtype=f8")
}

// TestPlanSaysWhyTheWidth: --help tells what the default width is the width of, and what this machine's would be.
func TestPlanSaysWhyTheWidth(t *testing.T) {
	help := strings.Join(strings.Fields(want(t, exitDone, "plan", "--help").stdout), " ")
	for _, words := range []string{
		"(default 132, the SMs of an H100; this machine's CPU has " + strconv.Itoa(runtime.GOMAXPROCS(0)) + " threads)", "how any other would be given work",
	} {
		if !strings.Contains(help, words) {
			t.Errorf("the help lacks %q:\n%s", words, help)
		}
	}
}
