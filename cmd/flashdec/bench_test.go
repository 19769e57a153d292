package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flashdec/flashdec/internal/bench"
)

// TestBenchRows runs a small suite and checks the fields that machines read.
func TestBenchRows(t *testing.T) {
	rows := objects(t, want(t, exitDone, "bench", "--suite=pages", "--match=64", "--mb=1", "--rounds=2", "--threads=2", "--json").stdout)
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
		if rate <= 0 || share <= 0 || row["ceiling_bytes_per_second"].(float64) <= 0 || row["seconds"].(float64) < row["seconds_min"].(float64) {
			t.Errorf("%v: rate %v, share %v, of %v", row["impl"], rate, share, row)
		}
	}
	if all := []string{"flashdec", "unsplit", "direct", "plain"}; !slices.Equal(names, all) {
		t.Errorf("measured %v, want %v", names, all)
	}
}

func TestBenchForms(t *testing.T) {
	text := want(t, exitDone, "bench", "--suite=window", "--mb=4", "--rounds=1", "--threads=1").stdout
	for _, say := range []string{"window of 1024", "flashdec", "unsplit", "plain", "of ceiling", "  × ", "keys/s: as a multiple of those of 1024 keys, in"} {
		if !strings.Contains(text, say) {
			t.Errorf("the table lacks %q:\n%s", say, text)
		}
	}
	records, err := csv.NewReader(strings.NewReader(want(t, exitDone, "bench", "--suite=window", "--mb=4", "--rounds=1", "--threads=1", "--csv").stdout)).ReadAll()
	if err != nil || len(records) != 1+3*4 {
		t.Errorf("%d records of comma-separated values, %v, want a header and 3 cases × 4", len(records), err)
	}
}

// TestBenchRecords: what is recorded can be compared with, and holds for a table.
func TestBenchRecords(t *testing.T) {
	dir := t.TempDir()
	flags := []string{"bench", "--suite=window", "--mb=1", "--rounds=1", "--threads=1"}
	record := filepath.Join(dir, "old.json")
	if err := os.WriteFile(record, []byte(want(t, exitDone, append(flags, "--json")...).stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	if text := want(t, exitDone, append(flags, "--compare="+record)...).stdout; !strings.Contains(text, "compared with") {
		t.Errorf("the table does not say what changed:\n%s", text)
	}
	// Of 8 rows, 4 are measured again; with two threads in place of one, all are new.
	for other, says := range map[string]string{"--match=window": "0 rows measured now that the record lacks, 4 of", "--threads=2": "8 rows measured now that the record lacks, 8 of"} {
		text := want(t, exitDone, append(flags, "--compare="+record, other)...).stdout
		if none := strings.Contains(text, "Nothing is compared"); none != (other == "--threads=2") {
			t.Errorf("%s: that nothing is compared is told %v:\n%s", other, none, text)
		}
		if words := strings.Join(strings.Fields(text), " "); !strings.Contains(words, "Not compared: "+says) {
			t.Errorf("%s: want %q told:\n%s", other, says, text)
		}
	}
	r := want(t, exitDone, append(flags, "--compare="+record, "--json")...)
	if objects(t, r.stdout); !strings.Contains(r.errs, "compared with") {
		t.Errorf("stderr %q does not say what changed", r.errs)
	}
}

func TestBenchPlots(t *testing.T) {
	for name, starts := range map[string]string{"a.svg": "<?xml", "a.PNG": "\x89PNG"} {
		path := filepath.Join(t.TempDir(), name)
		want(t, exitDone, "bench", "--suite=window,lengths", "--mb=1", "--rounds=1", "--threads=1", "--plot="+path)
		if text, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(text), starts) {
			t.Errorf("%s: %v, begins with %.20q, want %q", name, err, text, starts)
		}
	}
}

// A plot takes the place of an old one whole: who has that open keeps it.
func TestBenchPlotReplaces(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "a.svg"), filepath.Join(dir, "old.svg")
	if err := errors.Join(os.WriteFile(path, []byte("old"), 0o600), os.Link(path, other)); err != nil {
		t.Fatal(err)
	}
	want(t, exitDone, "bench", "--suite=window", "--mb=1", "--rounds=1", "--threads=1", "--plot="+path)
	text, err := os.ReadFile(other)
	left, _ := filepath.Glob(filepath.Join(dir, "*"))
	if hidden, _ := filepath.Glob(filepath.Join(dir, ".*")); err != nil || string(text) != "old" || len(left)+len(hidden) != 2 {
		t.Errorf("the old file holds %q, %v, and beside them lies %v %v", text, err, left, hidden)
	}
}

// The time of a part of a case is not put where times of the whole are compared.
func TestTimeOfAPart(t *testing.T) {
	for wanted, r := range map[string]bench.Row{
		"2.00 ms ":   {Seconds: 2e-3, Keys: 9},
		"8192 keys*": {Seconds: 2e-3, Keys: 8192, Note: "slow: measured on 8192 of 131072 keys"},
	} {
		if got := timeOf(r); got != wanted {
			t.Errorf("%+v: %q, want %q", r, got, wanted)
		}
	}
}

// TestBenchOnGPURuns: a GPU is measured on each case once and by itself, without threads,
// but for the suites that are about CPUs; a level of CPU kernels is no case there.
func TestBenchOnGPURuns(t *testing.T) {
	cmd := &benchCmd{Suite: []string{"all"}, Backend: "cuda", MB: 64}
	turns, err := cmd.runs()
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]int{}
	for _, runs := range turns {
		for _, r := range runs {
			cases[r.suite+r.c.Name]++
			if len(runs) != 1 || r.threads != 0 || r.c.Level != "" || r.suite == "threads" {
				t.Errorf("%+v is to run on a GPU, one of %d in turns", r, len(runs))
			}
		}
	}
	cpu := &benchCmd{Suite: []string{"all"}, Backend: "auto", MB: 64, Threads: 1}
	onCPU, err := cpu.runs()
	if err != nil {
		t.Fatal(err)
	}
	all, about := slices.Concat(onCPU...), 0
	for _, r := range all {
		if r.suite == "levels" || r.suite == "threads" {
			about++
		}
	}
	if len(cases) != len(turns) || len(turns) != len(all)-about {
		t.Errorf("%d runs of %d cases on a GPU, want each once of %d less %d", len(turns), len(cases), len(all), about)
	}
}

// TestTurns: what is compared is measured in turns, with the same threads unless threads are
// what is compared, and what is not is measured by itself.
func TestTurns(t *testing.T) {
	cmd := &benchCmd{Suite: []string{"types", "pages", "invariant", "decode", "threads"}, Backend: "cpu", MB: 512}
	all, err := cmd.runs()
	if err != nil {
		t.Fatal(err)
	}
	groups, threads := map[string][]int{}, len(cmd.threadCounts("types"))
	for _, runs := range all {
		first := runs[0]
		groups[first.suite] = append(groups[first.suite], len(runs))
		for i, r := range runs {
			if r.suite != first.suite || r.c.Turns != first.c.Turns || (r.threads != first.threads) != (r.suite == "threads" && i > 0) {
				t.Errorf("%s, %d threads, in turns with %s, %d", r.c.Name, r.threads, first.c.Name, first.threads)
			}
			with := func(x benchRun) bool { return x.c.Name == r.c.Against }
			if r.c.Against != "" && !slices.ContainsFunc(runs, with) {
				t.Errorf("%s is not measured in turns with %s", r.c.Name, r.c.Against)
			}
		}
	}
	want := map[string][]int{
		"types": slices.Repeat([]int{7}, 8*threads), "pages": slices.Repeat([]int{6}, threads), "invariant": slices.Repeat([]int{2}, 2*threads),
		"threads": {len(cmd.threadCounts("threads"))},
	}
	for suite, sizes := range want {
		if !slices.Equal(groups[suite], sizes) {
			t.Errorf("%s: groups of %v runs, want %v", suite, groups[suite], sizes)
		}
	}
	if n := groups["decode"]; slices.Max(n) != 1 {
		t.Errorf("decode: groups of %v runs, want each by itself", n)
	}
}

// TestBenchMemory: of what does not fit, the command says before it begins what it would
// take.
func TestBenchMemory(t *testing.T) {
	cmd := &benchCmd{Suite: []string{"types"}, Backend: "cpu", MB: 64, Threads: 1}
	turns, err := cmd.runs()
	if err != nil {
		t.Fatal(err)
	}
	const floats, scales = 7 << 26, 3*(1<<26/128+1<<26/64)*4 + (1<<26/64+1<<26/32)*4
	if err := cmd.checkMemory(turns, floats+scales); err != nil {
		t.Errorf("of exactly enough: %v", err)
	}
	for _, say := range []string{"--mb is 64", "7 types", "take 501.2 MB", "at most 400.0 MB"} {
		if err := cmd.checkMemory(turns, 4e8); err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("of too little: %v, want it to say %q", err, say)
		}
	}
	if err := cmd.checkMemory(turns[:1], floats+scales-1); err != nil {
		t.Errorf("of one shape: %v", err)
	}
	cmd.Backend = "cuda"
	if err := cmd.checkMemory(turns, 0); err != nil {
		t.Errorf("of a GPU's own memory: %v", err)
	}
}

// TestBenchPeer measures a peer that answers with a fixed time.
func TestBenchPeer(t *testing.T) {
	t.Setenv("FLASHDEC_TEST_PEER", "1")
	rows := objects(t, want(t, exitDone, "bench", "--suite=window", "--mb=16", "--rounds=2", "--threads=1", "--json", "--peer="+os.Args[0]).stdout)
	peers := 0
	for _, row := range rows {
		if row["impl"] == "abacus" {
			peers++
			if row["seconds"] != 0.5 || row["kv_dtype"] != "beads" || row["bytes_per_second"] != 1000.0 {
				t.Errorf("the peer's row is %v", row)
			}
		}
	}
	if peers != 2 {
		t.Errorf("%d rows of the peer, want those of the two cases without a window", peers)
	}
	refuses(t, []string{"--peer"}, "bench", "--suite=window", "--mb=1", "--peer=/no/such/program")
	// The command itself is no peer: it prints something else, or ends with its exit code.
	t.Setenv("FLASHDEC_TEST_PEER", "")
	t.Setenv("FLASHDEC_TEST_MAIN", "1")
	for flag, says := range map[string]string{"info --json": "--peer: ", "nonsense": "ended without an answer: exit status 2"} {
		told := want(t, exitBadInput, "bench", "--suite=lengths", "--mb=16", "--rounds=1", "--threads=1", "--json", "--peer="+os.Args[0]+" "+flag).errs
		if !strings.Contains(told, says) {
			t.Errorf("%s: %q, want it to say %q", flag, told, says)
		}
	}
}

// answerAsPeer is the peer's side of TestBenchPeer.
func answerAsPeer() {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Println(`{"impl":"abacus","kv_dtype":"beads","kv_bytes":500,"seconds":0.5}`)
	}
}

// TestBenchInterrupted: what is done is reported.
func TestBenchInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var stderr bytes.Buffer
	stdout := &cancelOnRow{cancel: cancel}
	code := run(ctx, []string{"bench", "--suite=types", "--mb=1", "--rounds=1", "--json"}, stdout, &stderr)
	if code != exitInterrupted || len(objects(t, stdout.String())) == 0 || prose(&stderr) != "flashdec: interrupted\n" {
		t.Errorf("exit %d, stdout %q, stderr %q, want %d, the rows so far, and one line", code, stdout, &stderr, exitInterrupted)
	}
}

// cancelOnRow is a reader along who has seen enough after the first row.
type cancelOnRow struct {
	bytes.Buffer
	cancel func()
}

func (c *cancelOnRow) Write(p []byte) (int, error) {
	c.cancel()
	return c.Buffer.Write(p)
}

// TestSharesBeyondTheCeilingAreMarked: more than all of a bare read's pace is a read that was disturbed, as rounds are that
// lie far apart: marked in the table, told once below it, and on stderr where machines read.
func TestSharesBeyondTheCeilingAreMarked(t *testing.T) {
	rowOf := func(share, spread float64) bench.Row {
		return bench.Row{Suite: "types", Case: "a", Impl: "flashdec", Seconds: 1, Rate: share * 50e9, Ceiling: 50e9, Share: share, Spread: spread}
	}
	const slower = "and shares up to 113% say that they were slower than what is more work"
	for _, tc := range []struct {
		rows            []bench.Row
		marks           int
		says, saysNotTo string
	}{
		{[]bench.Row{rowOf(0.9, 0.01), rowOf(1.004, 0.01)}, 0, "", "disturbed"},
		{[]bench.Row{rowOf(0.9, 0.01), rowOf(1.13, 0.02), rowOf(1.06, 0.04)}, 2, "of 2 rows were disturbed themselves: their fastest round lay up to 4.0% above the median, " + slower, "?"},
		{[]bench.Row{rowOf(0.9, 0.34)}, 1, "of 1 row were disturbed themselves: their fastest round lay up to 34.0% above the median; more rounds", "slower"},
	} {
		for _, form := range []benchCmd{{MB: 1}, {MB: 1, JSON: true}, {MB: 1, CSV: true}} {
			out, errs := &strings.Builder{}, &strings.Builder{}
			r := &benchReport{cmd: &form, t: newTerminal(out, errs), rows: tc.rows}
			if err := errors.Join(r.end(), r.t.flush()); err != nil {
				t.Fatal(err)
			}
			told, marks := errs.String(), 0
			if !form.JSON && !form.CSV {
				told, marks = strings.Join(strings.Fields(out.String()), " "), tc.marks
			}
			if !strings.Contains(told, tc.says) || strings.Contains(told, tc.saysNotTo) || strings.Count(out.String(), " ~") != marks {
				t.Errorf("%+v: %q, want %d marks and %q", form, told, marks, tc.says)
			}
		}
	}
}

func TestBenchRefuses(t *testing.T) {
	for _, tc := range []struct{ flag, says string }{
		{"--suite=nothing", "--suite"},
		{"--threads=-1", "--threads is -1"},
		{"--mb=0", "--mb is 0"},
		{"--rounds=0", "--rounds is 0"},
		{"--match=no such case", `--match is "no such case", want whole words of a case's name such as "f32, group 1, dim 128": f32; group 1; dim 128; f16; bf16; e4m3; `},
		{"--match=nosuch\x00--suite=all", "; and "},
		{"--suite=blog\x00--mb=1", "see --mb"},
		{"--backend=cuda\x00--threads=2", "--threads is 2, but only the CPU has threads"},
		{"--backend=cuda\x00--peer=/bin/true", "--peer computes on the CPU"},
		{"--backend=cuda\x00--suite=threads", "suite threads is about CPUs"},
		{"--backend=cuda\x00--suite=blog\x00--mb=1", "see --mb"},
		{"--plot=a.gif", "--plot"},
		{"--plot=no/such/folder/a.svg", "a.svg: output cannot be written"},
		{"--contexts=5", "--contexts is for --model"},
		{"--prompts=5", "--prompts is for --model"},
		{"--kv-dtype=f16", "--kv-dtype is for --model"},
		{"--compare=no-such-file", "no-such-file"},
		{"--compare=" + os.DevNull, os.DevNull + ": it holds no row"},
	} {
		if got := want(t, exitBadInput, append([]string{"bench"}, strings.Split(tc.flag, "\x00")...)...); !strings.Contains(got.errs, tc.says) {
			t.Errorf("%s: %q, want it to say %q", tc.flag, got.errs, tc.says)
		}
	}
}
