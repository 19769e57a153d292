package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/flashdec/flashdec/internal/bench"
)

var recordName = regexp.MustCompile(`[a-z0-9-]+\.jsonl`)

// TestOneMachineHasOneName: the rows of all files that bench/results/README.md lists for a machine tell the same
// device, or results.md would have a chapter for each name.
func TestOneMachineHasOneName(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, resultsDir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	devices, machine, listed := map[string][]string{}, "", 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || !recordName.MatchString(cells[1]) {
			continue
		}
		if of := strings.TrimSpace(cells[2]); of != "the same" {
			machine = of
		}
		for _, name := range recordName.FindAllString(cells[1], -1) {
			listed++
			rows, err := readAll([]string{filepath.Join(root, resultsDir, name)}, "")
			if err != nil {
				t.Fatal(err)
			}
			devices[machine] = append(devices[machine], distinct(rows, func(r bench.Row) string { return r.Device })...)
		}
	}
	for machine, names := range devices {
		if names = slices.Compact(slices.Sorted(slices.Values(names))); len(names) != 1 || names[0] == "" {
			t.Errorf("%s is called %q, want one name", machine, names)
		}
	}
	if files, err := filepath.Glob(filepath.Join(root, resultsDir, "*.jsonl")); err != nil || listed != len(files) {
		t.Errorf("the README lists %d records of %d, %v", listed, len(files), err)
	}
}
