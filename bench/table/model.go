package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flashdec/flashdec/internal/bench"
	"github.com/flashdec/flashdec/internal/chart"
)

// step is a line of a model's table.
type step struct {
	model   string
	context int
	threads int
}

// modelTable says how fast models decode on one device: a line a context and number of threads, a column a
// way.
func modelTable(rows []bench.Row) string {
	impls := distinct(rows, func(r bench.Row) string { return r.Impl })
	of := func(r bench.Row) step { return step{r.Model, r.Len, r.Threads} }
	cells := make(map[step]map[string]bench.Row)
	for _, r := range rows {
		if cells[of(r)] == nil {
			cells[of(r)] = make(map[string]bench.Row)
		}
		cells[of(r)][r.Impl] = r
	}
	text := &strings.Builder{}
	fmt.Fprintf(text, "### %s on %s\n\n", inLine(rows[0].Suite), inLine(rows[0].Device))
	line(text, append([]string{"model", "context", "threads", "weights + cache, MB", "bare read, tokens/s"}, impls...))
	line(text, rule(5+len(impls)))
	for _, k := range distinct(rows, of) {
		first := cells[k][impls[0]]
		words := []string{
			k.model, chart.Keys(k.context), threads(k.threads),
			fmt.Sprintf("%.1f + %.1f", float64(first.WeightBytes)/1e6, float64(first.KVBytes)/1e6), tokens(first.Ceiling / float64(max(first.Bytes(), 1))),
		}
		for _, impl := range impls {
			if r, measured := cells[k][impl]; measured {
				words = append(words, fmt.Sprintf("%s (%.0f%%%s)", tokens(r.TokenRate), 100*r.Share, tilde(r)))
			} else {
				words = append(words, "–")
			}
		}
		line(text, words)
	}
	text.WriteString(originOf(rows, "Tokens a second of one sequence, and share of a bare read of the weights, keys and values that a step reads"))
	if slices.ContainsFunc(rows, func(r bench.Row) bool { return r.Disturbed() }) {
		text.WriteString(disturbedNote)
	}
	return text.String()
}

// tokens is a number of tokens a second.
func tokens(rate float64) string {
	if rate < 100 {
		return fmt.Sprintf("%.1f", rate)
	}
	return fmt.Sprintf("%.0f", rate)
}
