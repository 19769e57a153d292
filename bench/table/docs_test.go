package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flashdec/flashdec/internal/bench"
)

const root = "../.."

// TestDocsAreMade: the documents are what the command makes of the recorded rows.
func TestDocsAreMade(t *testing.T) {
	files, err := makeDocs(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, made := range files {
		kept, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Error(err)
		} else if diff := cmp.Diff(string(kept), string(made)); diff != "" {
			t.Errorf("%s (-kept +made), make it again with go run ./bench/table -docs:\n%s", name, diff)
		}
	}
	pictures, err := filepath.Glob(filepath.Join(root, plotsDir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range pictures {
		if name := plotsDir + "/" + filepath.Base(path); files[name] == nil {
			t.Errorf("%s is no picture of recorded rows", name)
		}
	}
}

// recordedIn is a repository that has some rows.
func recordedIn(t *testing.T, rows ...bench.Row) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, resultsDir), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(record(t, rows...), filepath.Join(dir, resultsDir, "abacus.jsonl")); err != nil {
		t.Fatal(err)
	}
	for i, c := range measuredColumns {
		r := measured("types", "f16, group 4, dim 128", c.impl, "f16", 100, 0.01, 1e9*float64(i+1))
		r.Threads, r.Device = c.threads, "Counting frame"
		if err := os.Rename(record(t, r, r), filepath.Join(dir, resultsDir, c.file)); err != nil {
			t.Fatal(err)
		}
	}
	text := "# before\n\n" + tableBegins + "what was\n" + tableEnds + "\nafter\n"
	if err := os.WriteFile(filepath.Join(dir, readme), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestReadmeTable: the README's table is of the recorded rows, and all around it stays.
func TestReadmeTable(t *testing.T) {
	dir := recordedIn(t, measured("decode", "x", "flashdec", "bf16", 5, 0.01, 3e10))
	if err := writeDocs(dir); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, readme))
	if err != nil {
		t.Fatal(err)
	}
	for _, say := range []string{
		"# before\n\n" + tableBegins + "| keys and values, group | Xeon, 1 thread |", tableEnds + "\nafter\n",
		"| f16, 4 | 1.0 (2%) | 2.0 (5%) | – | – | 5.00 |\n", "| int4, 4 | – |",
	} {
		if !strings.Contains(string(text), say) {
			t.Errorf("the README lacks %q:\n%s", say, text)
		}
	}
	if strings.Contains(string(text), "what was") || strings.Contains(string(text), "int4, 8") {
		t.Errorf("the README has what it should not:\n%s", text)
	}
	if err := os.WriteFile(filepath.Join(dir, readme), []byte("no marks"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeDocs(dir); err == nil || !strings.Contains(err.Error(), "no lines") {
		t.Errorf("%v, want that the README has no place for the table", err)
	}
}

// TestOneCaseUnderTwoNames: rows of a case that recorders name differently are one line,
// and share the bare read.
func TestOneCaseUnderTwoNames(t *testing.T) {
	ours := measured("decode", "batch 1, 32/8 heads, 1024 keys, dim 128", "flashdec", "bf16", 1024, 0.01, 3e10)
	ours.QHeads, ours.KeyDim = 32, 128
	peer := ours
	peer.Case, peer.Impl, peer.Rate, peer.Ceiling, peer.Share = "[1 32 8 1024 128]", "a peer", 1e10, 0, 0
	dir := recordedIn(t, ours, peer)
	files, err := makeDocs(dir)
	if err != nil {
		t.Fatal(err)
	}
	if say := "| batch 1, 32/8 heads, 1024 keys, dim 128 | 32/8 | 1 × 1024 | bf16 | 2 | 10.00 ms | 40.0 | 30.0 (75%) | 10.0 (25%) |"; !strings.Contains(string(files[resultsDoc]), say) {
		t.Errorf("the document lacks %q:\n%s", say, files[resultsDoc])
	}
}

// TestDocsHoldAll: every case is in a table, what can be drawn is, and a picture that
// is no longer made goes.
func TestDocsHoldAll(t *testing.T) {
	var rows []bench.Row
	for n := 1 << 10; n <= 1<<16; n *= 4 {
		r := measured("decode", "[1 32 8]", "flashdec", "bf16", n, 0.01, 3e10)
		r.Case = strings.Repeat("x", n>>10%7+1)
		rows = append(rows, r)
	}
	peer := measured("decode", rows[0].Case, "a peer", "bf16", rows[0].Len, 0.02, 1e10)
	peer.Ceiling, peer.Share = 0, 0
	dir := recordedIn(t, append(rows, peer)...)
	stale := filepath.Join(dir, plotsDir, "stale.svg")
	if err := os.MkdirAll(filepath.Dir(stale), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(stale, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeDocs(dir); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, resultsDoc))
	if err != nil {
		t.Fatal(err)
	}
	for _, say := range []string{
		"## Abacus", "### decode on Abacus", "(results/decode-abacus-2.svg)", "(results/decode-abacus-2-times.svg)", "From bench/results/abacus.jsonl",
		"30.0 (75%) | 10.0 (25%)", // the peer's share is of the read beside the other way
	} {
		if !strings.Contains(string(text), say) {
			t.Errorf("the document lacks %q:\n%s", say, text)
		}
	}
	for _, name := range []string{"decode-abacus-2.svg", "decode-abacus-2-times.svg"} {
		if info, err := os.Stat(filepath.Join(dir, plotsDir, name)); err != nil || info.Size() < 1000 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(stale); !os.IsNotExist(err) {
		t.Errorf("a picture of nothing is still there: %v", err)
	}
	if _, err := makeDocs(t.TempDir()); err == nil {
		t.Error("no recorded rows make documents")
	}
}
