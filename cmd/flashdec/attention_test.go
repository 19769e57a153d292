package main

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
)

// TestContext pins what a token is shown in.
func TestContext(t *testing.T) {
	const columns = 18 + 1
	for _, tc := range []struct {
		pieces []string
		pos    int
		want   string
	}{
		{[]string{"Once", " upon", " a", " time"}, 2, "         Once upon[ a] time"},
		{[]string{"a rather long beginning", " that", " ends here, much later"}, 1, "ther long beginning[ that] ends here, mu"[1:]},
		{[]string{"x"}, 0, strings.Repeat(" ", 18) + "[x]"},
		{[]string{"", "", "\n"}, 2, strings.Repeat(" ", 18) + "[⏎]"},
		{[]string{"\x1b[31m", "\xff"}, 1, strings.Repeat(" ", 13) + "�[31m[�]"},
		{[]string{"漢字漢字漢字漢字漢字", "b"}, 1, "字漢字漢字漢字漢字[b]"},
	} {
		got := inContext(tc.pieces, tc.pos, len(tc.pieces))
		if got != tc.want {
			t.Errorf("%q, %d: %q, want %q", tc.pieces, tc.pos, got, tc.want)
		}
		if left, _, _ := strings.Cut(got, "["); !strings.Contains(left, "�") && text.StringWidth(left) != columns-1 {
			t.Errorf("%q: the token begins in column %d, want %d", tc.pieces, text.StringWidth(left), columns-1)
		}
	}
}

// Pieces are a file's: neither their length nor their number may cost more than
// reading them once. What was quadratic took hours for these; a slow machine takes seconds.
func TestLongPieces(t *testing.T) {
	const long = 1_000_000
	repeated := func(s string, n int) []string { return slices.Repeat([]string{s}, n) }
	for name, pieces := range map[string][]string{
		"long":       repeated(strings.Repeat("a", long), 5),
		"long marks": repeated(strings.Repeat("\u0301", long), 5),
		"bytes":      repeated(strings.Repeat("\xff", long), 5),
		"many":       repeated("a", long),
		"many marks": repeated("\u0301", long),
		"many empty": repeated("", long),
	} {
		start := time.Now()
		shown := inContext(pieces, len(pieces)/2, len(pieces))
		if took := time.Since(start); took > time.Minute {
			t.Errorf("%s: %v", name, took)
		}
		if n := len([]rune(shown)); n > 18+4*(18+16+14)+2 {
			t.Errorf("%s: %d runes in a line of a table", name, n)
		}
	}
}

// The reports of a file with such pieces stay reports.
func TestLongPiecesInReports(t *testing.T) {
	pieces, err := json.Marshal(slices.Repeat([]string{strings.Repeat("a b", 300_000)}, 5))
	if err != nil {
		t.Fatal(err)
	}
	f := goodFile()
	f.metadata["pieces"] = string(pieces)
	path := f.write(t, filepath.Join(t.TempDir(), "long.safetensors"))
	for _, args := range [][]string{{"run", path}, {"explain", path}} {
		start := time.Now()
		told := want(t, exitDone, args...).stdout
		if took := time.Since(start); took > time.Minute {
			t.Errorf("%s: %v", args[0], took)
		}
		if _, told, _ = strings.Cut(told, "\n"); len(told) > 8000 { // the first line may have the path
			t.Errorf("%s: a report of %d bytes", args[0], len(told))
		}
	}
}

// Weighing many keys stops when the command is interrupted.
func TestWeighingStops(t *testing.T) {
	c, err := openCase(context.Background(), realLayer)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	ctx, cancel := context.WithCancel(context.Background())
	got := &newest{q: c.queriesOf(piece{0, 1, c.queries - 1, 1}), lse: make([]float32, c.shape.NumHeads)}
	if n := len(c.weigh(ctx, part{0, 0}, got, c.fromFile)); n != c.keys {
		t.Errorf("%d keys are weighed, want all %d", n, c.keys)
	}
	cancel()
	if n := len(c.weigh(ctx, part{0, 0}, got, c.fromFile)); n > lookUp {
		t.Errorf("%d keys are weighed once the context is done, want at most %d", n, lookUp)
	}
}
