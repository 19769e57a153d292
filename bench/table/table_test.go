package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flashdec/flashdec/internal/bench"
)

// record writes rows as flashdec bench --json does.
func record(t *testing.T, rows ...bench.Row) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	text := &strings.Builder{}
	encoder := json.NewEncoder(text)
	for _, r := range rows {
		if err := encoder.Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func measured(suite, name, impl, dtype string, keys int, seconds, rate float64) bench.Row {
	return bench.Row{
		Suite: suite, Case: name, Impl: impl, KVDType: dtype, Batch: 1, QHeads: 8, KVHeads: 8, Len: keys, Threads: 2, Seconds: seconds, Min: seconds,
		Rate: rate, Ceiling: 4e10, Share: rate / 4e10, Device: "Abacus", Commit: "c0ffee",
	}
}

func disturbed(r bench.Row) bench.Row {
	r.Spread = 0.2
	return r
}

func TestTable(t *testing.T) {
	path := record(t,
		measured("types", "f16, group 1", "flashdec", "f16", 100, 0.01, 3e10),
		measured("types", "f16, group 1", "plain", "f16", 100, 1, 4e8),
		measured("types", "int8, group 1", "flashdec", "int8", 200, 0.01, 3e10),
		measured("peers", "f16", "flashdec", "f16", 100, 0.01, 3e10),
		disturbed(measured("pages", "contiguous", "flashdec", "f16", 100, 0.01, 3e10)),
		measured("peers", "f16", "other", "f16", 100, 0.07, 4e9),
		measured("window", "whole", "flashdec", "f16", 100, 0.01, 4.4e10),
	)
	text := &strings.Builder{}
	if err := run(text, []string{path}, "", false); err != nil {
		t.Fatal(err)
	}
	for _, say := range []string{
		"### types on Abacus", "| f16, group 1 | 8/8 | 1 × 100 | f16 | 2 | 10.00 ms | 40.0 | 30.0 (75%) | 0.40 (1.0%) |", "| int8, group 1 | 8/8 | 1 × 200 | int8 | 2 | 10.00 ms | 40.0 | 30.0 (75%) | – |",
		"Commit c0ffee", "30.0 (75% ~)", "44.0 (110% ~)", "~ The bare read itself was disturbed", "## Ratios", "| int8, group 1, against f16 | Abacus | 2 | 2.00 |", "| f16, against other's f16 | Abacus | 2 | 7.00 |",
	} {
		if !strings.Contains(text.String(), say) {
			t.Errorf("the tables lack %q:\n%s", say, text)
		}
	}
	text.Reset()
	if err := run(text, []string{path}, "peers", true); err != nil {
		t.Fatal(err)
	}
	var ratio bench.Ratio
	if err := json.Unmarshal([]byte(text.String()), &ratio); err != nil || ratio.Suite != "peers" || ratio.Times < 6.99 || ratio.Times > 7.01 {
		t.Errorf("%v, %+v of %s, want one ratio of 7", err, ratio, text)
	}
}

// TestComparedColumn: what was measured in turns is compared in a column of its own, and
// among the ratios; tables without such rows have no such column.
func TestComparedColumn(t *testing.T) {
	base, eight := measured("types", "f16, group 1", "flashdec", "f16", 100, 0.01, 3e10), measured("types", "int8, group 1", "flashdec", "int8", 200, 0.01, 3e10)
	text := &strings.Builder{}
	if err := run(text, []string{record(t, base, eight)}, "", false); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text.String(), "keys/s") {
		t.Errorf("nothing was measured in turns, but is compared:\n%s", text)
	}
	eight.Against, eight.Times = base.Case, 1.7
	text.Reset()
	if err := run(text, []string{record(t, base, eight)}, "", false); err != nil {
		t.Fatal(err)
	}
	for _, say := range []string{
		"| bare read, GB/s | flashdec | keys/s against f16 of the same shape |", "40.0 | 30.0 (75%) | – |", "40.0 | 30.0 (75%) | 1.70 |",
		"in the same rounds, the median", "| int8, group 1, against f16 | Abacus | 2 | 1.70 |",
	} {
		if !strings.Contains(text.String(), say) {
			t.Errorf("the tables lack %q:\n%s", say, text)
		}
	}
}

func TestTableRefuses(t *testing.T) {
	for name, path := range map[string]string{"no such file": "no-such-file", "not recorded rows": "main.go", "nothing": record(t)} {
		if err := run(&strings.Builder{}, []string{path}, "", false); err == nil {
			t.Errorf("%s makes a table", name)
		}
	}
}

// TestRecorded: every recorded run makes tables.
func TestRecorded(t *testing.T) {
	paths, err := filepath.Glob("../results/*.jsonl")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no recorded runs: %v", err)
	}
	for _, path := range paths {
		if err := run(&strings.Builder{}, []string{path}, "", false); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestModelTable: a line a context and number of threads, with each way's tokens a second and share.
func TestModelTable(t *testing.T) {
	row := func(impl string, context, threads int, rate float64) bench.Row {
		r := measured(bench.ModelSuite, "bead", impl, "f16", context, 1/rate, rate*2e8)
		r.Model, r.WeightBytes, r.KVBytes, r.TokenRate, r.Threads = "bead-8B", 150e6, 50e6, rate, threads
		return r
	}
	text := &strings.Builder{}
	rows := []bench.Row{row("flashdec", 2048, 2, 100), disturbed(row("unsplit", 2048, 2, 50)), row("flashdec", 100, 1, 12.5)}
	if err := run(text, []string{record(t, rows...)}, "", false); err != nil {
		t.Fatal(err)
	}
	for _, say := range []string{
		"### model on Abacus",
		"| model | context | threads | weights + cache, MB | bare read, tokens/s | flashdec | unsplit |",
		"| bead-8B | 2K | 2 | 150.0 + 50.0 | 200 | 100 (50%) | 50.0 (25% ~) |",
		"| bead-8B | 100 | 1 | 150.0 + 50.0 | 200 | 12.5 (6%) | – |",
		"Commit c0ffee",
	} {
		if !strings.Contains(text.String(), say) {
			t.Errorf("the table lacks %q:\n%s", say, text)
		}
	}
}

// TestPromptTable: a line a prompt and number of threads, with what multiply-adds alone allow and each way's share of it.
func TestPromptTable(t *testing.T) {
	row := func(impl string, tokens int, seconds, peak float64) bench.Row {
		r := measured(bench.PromptSuite, "bead", impl, "f16", tokens, seconds, 0)
		r.Model, r.TokenRate, r.Threads, r.MultiplyAdds, r.Peak, r.Spread = "bead-8B", float64(tokens)/seconds, 2, 50e9, peak, 0
		if peak > 0 {
			r.Share = r.Floor() / seconds
		}
		return r
	}
	text := &strings.Builder{}
	rows := []bench.Row{row("flashdec", 2048, 10, 1e10), disturbed(row("abacus", 2048, 50, 1e10)), row("flashdec", 100, 8, 0)}
	if err := run(text, []string{record(t, rows...)}, "", false); err != nil {
		t.Fatal(err)
	}
	for _, say := range []string{
		"### prompt on Abacus",
		"| model | prompt, tokens | threads | multiply-adds | these alone, tokens/s | flashdec | abacus |",
		"| bead-8B | 2K | 2 | 50 G | 410 | 205 (50%) | 41.0 (10% ~) |",
		"| bead-8B | 100 | 2 | 50 G | – | 12.5 | – |",
		"Multiply-adds alone were disturbed",
	} {
		if !strings.Contains(text.String(), say) {
			t.Errorf("the table lacks %q:\n%s", say, text)
		}
	}
}

// TestHostileNames: what rows are named ends no cell, no line, and is not obeyed by a terminal.
func TestHostileNames(t *testing.T) {
	r := measured("types", "a|b\n| c \x1b[2J", "way|\n", "f16\r", 100, 0.01, 3e10)
	r.Device, r.Commit, r.Command = "Abacus\n# no", "c0\nffee", "flashdec\x1b bench"
	text := &strings.Builder{}
	if err := run(text, []string{record(t, r)}, "", false); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), `| a\|b�\| c �[2J | 8/8 |`) || strings.ContainsAny(text.String(), "\x1b\r") || strings.Contains(text.String(), "\n# no") {
		t.Errorf("a table of hostile names:\n%q", text)
	}
}

// TestUsage: neither files nor -docs, or both, is bad usage, and bad input ends alike.
func TestUsage(t *testing.T) {
	if os.Getenv("TABLE_TEST_MAIN") != "" {
		os.Args = append(os.Args[:1], strings.Fields(os.Getenv("TABLE_TEST_MAIN"))[1:]...)
		main()
		return
	}
	for args, says := range map[string]string{"table": "Usage", "table -docs x.jsonl": "Usage", "table no-such-file": "no-such-file"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestUsage$")
		cmd.Env = append(os.Environ(), "TABLE_TEST_MAIN="+args)
		told, _ := cmd.CombinedOutput() // the exit code tells
		if code := cmd.ProcessState.ExitCode(); code != 2 || !strings.Contains(string(told), says) {
			t.Errorf("%s: exit %d, want 2, and %q in %s", args, code, says, told)
		}
	}
}
