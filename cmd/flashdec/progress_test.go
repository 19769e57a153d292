package main

import (
	"bytes"
	"context"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestProgressIsToldToLogs: where stderr is no terminal, long work says by a line now and then how far it is,
// in every verb that has a bar; work that ends soon says nothing.
func TestProgressIsToldToLogs(t *testing.T) {
	dir := t.TempDir()
	text := tokensFile(t, strings.Repeat("5 6 7 ", 100)) // 300 tokens: 2 of a runner's batches, 5 of what has logits
	prompt := strings.Repeat("5,6,7,", 99) + "5,6,7"
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"generate", goldenModels + "qwen2", "--ids=" + prompt, "--max-tokens=1"}, []string{"reading the prompt: 256 of 300"}},
		{[]string{"logits", goldenModels + "qwen2", text, "-o", filepath.Join(dir, "logits.npz")}, []string{"computing logits: 64 of 300", "computing logits: 256 of 300"}},
		{[]string{"perplexity", goldenModels + "qwen2", text}, []string{"predicting: 64 of 300", "predicting: 256 of 300"}},
		{[]string{"verify", "../../testdata/golden/attention"}, []string{"files: 1 of "}},
	} {
		for _, every := range []time.Duration{0, time.Hour} {
			var errs strings.Builder
			term := newTerminal(io.Discard, &errs)
			term.tells = every
			if err := dispatch(&interrupt{ctx: context.Background()}, term, c.args); err != nil {
				t.Fatalf("%s: %v", c.args, err)
			}
			if every > 0 {
				c.want = nil
			}
			checkTold(t, c.args[0], errs.String(), c.want)
		}
	}
}

// checkTold fails unless a verb's progress has lines that begin as wanted, or is none.
func checkTold(t *testing.T, verb, errs string, want []string) {
	t.Helper()
	lines := slices.Collect(strings.Lines(errs))
	if len(want) == 0 && errs != "" {
		t.Errorf("%s: stderr is %q, want nothing of what is soon done", verb, errs)
	}
	for _, line := range want {
		if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "flashdec: "+line) }) {
			t.Errorf("%s: stderr is %q, want a line flashdec: %s", verb, errs, line)
		}
	}
}

var (
	progressLine  = regexp.MustCompile(`(?m)^flashdec: [a-z ]+: \d+ of \d+\n`)
	cachedLine    = regexp.MustCompile(`(?m)^flashdec: keys and values of .* fit into the processors' last caches of .*\n`)
	disturbedLine = regexp.MustCompile(`(?m)^flashdec: the bare read, or multiply-adds alone, of .*\n`)
)

// prose is what stderr has beside what the machine decides: progress, if it stands still, how small a bench is to it,
// and how quiet it was.
func prose(stderr *bytes.Buffer) string {
	text := stderr.String()
	for _, line := range []*regexp.Regexp{progressLine, cachedLine, disturbedLine} {
		text = line.ReplaceAllString(text, "")
	}
	return text
}

// Lines come no more often than asked for, and none when all is done.
func TestTallyKeepsItsPace(t *testing.T) {
	var log strings.Builder
	start := time.Now()
	p := &tally{to: &log, label: "work", steps: 100, every: 10 * time.Second, last: start}
	for second := range 100 {
		p.add(1, start.Add(time.Duration(second+1)*time.Second))
	}
	lines := slices.Collect(strings.Lines(log.String()))
	if len(lines) != 9 || lines[0] != "flashdec: work: 10 of 100\n" || lines[8] != "flashdec: work: 90 of 100\n" {
		t.Errorf("a line every 10 s of 100 s is %q, want 10, 20 … 90 of 100", lines)
	}
}
