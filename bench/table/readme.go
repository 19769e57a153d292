package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flashdec/flashdec/internal/bench"
	"github.com/flashdec/flashdec/kv"
)

// What of the README is made, and what stands around it.
const (
	readme      = "README.md"
	tableBegins = "<!-- Made by go run ./bench/table -docs. -->\n"
	tableEnds   = "<!-- End of what is made. -->\n"
)

// measuredColumns are the columns of the README's table.
var measuredColumns = []struct {
	head, file string
	threads    int
	impl       string
}{
	{"Xeon, 1 thread", "cpu-xeon-1-thread.jsonl", 1, "flashdec"},
	{"Xeon, 16 threads", "cpu-xeon-16-threads.jsonl", 16, "flashdec"},
	{"EPYC, 1 thread", "cpu-epyc-2-cores.jsonl", 1, "flashdec"},
	{"EPYC, 2 threads", "cpu-epyc-2-cores.jsonl", 2, "flashdec"},
	{"plain Go loop, EPYC, 2 threads", "cpu-epyc-2-cores.jsonl", 2, "plain"},
}

// readmeMade is the README with its table made from the recorded rows.
func readmeMade(root string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, readme))
	if err != nil {
		return nil, err
	}
	before, rest, begun := bytes.Cut(text, []byte(tableBegins))
	_, after, ended := bytes.Cut(rest, []byte(tableEnds))
	if !begun || !ended {
		return nil, fmt.Errorf("%s has no lines %q and %q, between which its table is made", readme, strings.TrimSpace(tableBegins), strings.TrimSpace(tableEnds))
	}
	table, err := measuredTable(filepath.Join(root, resultsDir))
	if err != nil {
		return nil, err
	}
	return slices.Concat(before, []byte(tableBegins), []byte(table), []byte(tableEnds), after), nil
}

// measuredTable has a line a type and group of the suite types, of head dim 128.
func measuredTable(dir string) (string, error) {
	head := []string{"keys and values, group"}
	rows := make([][]bench.Row, len(measuredColumns))
	for i, c := range measuredColumns {
		all, err := readAll([]string{filepath.Join(dir, c.file)}, "types")
		if err != nil {
			return "", err
		}
		rows[i], head = all, append(head, c.head)
	}
	text := &strings.Builder{}
	line(text, head)
	line(text, rule(len(head)))
	for _, dtype := range bench.DTypes {
		groups := []int{1, 4, 8}
		if dtype.Quantised() {
			groups = groups[:2]
		}
		for _, group := range groups {
			line(text, measuredLine(rows, dtype, group))
		}
	}
	return text.String(), nil
}

// measuredLine is one of them; of rows that measured the same, the last counts.
func measuredLine(rows [][]bench.Row, dtype kv.DType, group int) []string {
	words := []string{fmt.Sprintf("%v, %d", dtype, group)}
	name := fmt.Sprintf("%v, group %d, dim 128", dtype, group)
	for i, c := range measuredColumns {
		word := "–"
		for _, r := range rows[i] {
			switch {
			case r.Case != name || r.Threads != c.threads || r.Impl != c.impl:
			case c.impl == "flashdec":
				word = fmt.Sprintf("%.1f (%.0f%%)", r.Rate/1e9, 100*r.Share)
			default:
				word = fmt.Sprintf("%.2f", r.Rate/1e9)
			}
		}
		words = append(words, word)
	}
	return words
}
