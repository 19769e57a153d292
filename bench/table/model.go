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
	text := stepTable(rows, []string{"model", "context", "threads", "weights + cache, MB", "bare read, tokens/s"}, func(k step, r bench.Row) []string {
		return []string{
			k.model, chart.Keys(k.context), threads(k.threads),
			fmt.Sprintf("%.1f + %.1f", float64(r.WeightBytes)/1e6, float64(r.KVBytes)/1e6), tokens(r.Ceiling / float64(max(r.Bytes(), 1))),
		}
	}, "Tokens a second of one sequence, and share of a bare read of the weights, keys and values that a step reads")
	if slices.ContainsFunc(rows, func(r bench.Row) bool { return r.Disturbed() }) {
		text += disturbedNote
	}
	return text
}

// promptTable says how fast models read prompts on one device.
func promptTable(rows []bench.Row) string {
	text := stepTable(rows, []string{"model", "prompt, tokens", "threads", "multiply-adds", "these alone, tokens/s"}, func(k step, r bench.Row) []string {
		alone := "–"
		if floor := r.Floor(); r.Peak > 0 && floor > 0 {
			alone = tokens(float64(r.Len) / floor)
		}
		return []string{k.model, chart.Keys(k.context), threads(k.threads), fmt.Sprintf("%.3g G", float64(r.MultiplyAdds)/1e9), alone}
	}, "Tokens of a prompt a second, and share of what multiply-adds alone would take, in float32, as they were measured in the same run")
	if slices.ContainsFunc(rows, func(r bench.Row) bool { return r.Disturbed() }) {
		text += "~ Multiply-adds alone were disturbed: their fastest round lay more than 15% above the median, or the share is more than all of it, and says little.\n\n"
	}
	return text
}

// stepTable has a line a model, number of tokens and number of threads, which begins with what its first row says, and
// then a column a way.
func stepTable(rows []bench.Row, heads []string, first func(k step, r bench.Row) []string, about string) string {
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
	line(text, append(slices.Clone(heads), impls...))
	line(text, rule(len(heads)+len(impls)))
	for _, k := range distinct(rows, of) {
		words := first(k, cells[k][impls[0]])
		for _, impl := range impls {
			r, measured := cells[k][impl]
			switch {
			case !measured:
				words = append(words, "–")
			case r.Share == 0: // nothing to hold it against
				words = append(words, tokens(r.TokenRate))
			default:
				words = append(words, fmt.Sprintf("%s (%.0f%%%s)", tokens(r.TokenRate), 100*r.Share, tilde(r)))
			}
		}
		line(text, words)
	}
	text.WriteString(originOf(rows, about))
	return text.String()
}

// tokens is a number of tokens a second.
func tokens(rate float64) string {
	if rate < 100 {
		return fmt.Sprintf("%.1f", rate)
	}
	return fmt.Sprintf("%.0f", rate)
}
