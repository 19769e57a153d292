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
	return dir
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
