package main

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/flashdec/flashdec/internal/bench"
	"github.com/flashdec/flashdec/internal/chart"
)

// key is a line of a table.
type key struct {
	name    string
	threads int
}

// tables are one suite's, one a device.
func tables(rows []bench.Row) []string {
	var all []string
	for _, device := range distinct(rows, func(r bench.Row) string { return r.Device }) {
		var its []bench.Row
		for _, r := range rows {
			if r.Device == device {
				its = append(its, r)
			}
		}
		all = append(all, tableOf(its))
	}
	return all
}

// tableOf is the table of one suite on one device.
func tableOf(rows []bench.Row) string {
	if rows[0].Suite == bench.ModelSuite {
		return modelTable(rows)
	}
	if rows[0].Suite == bench.PromptSuite {
		return promptTable(rows)
	}
	return suiteTable(rows)
}

// suiteTable is one suite on one device: a line a case and number of threads, a
// column a way. Of rows that measured the same, the last counts.
func suiteTable(rows []bench.Row) string {
	impls := distinct(rows, func(r bench.Row) string { return r.Impl })
	lines := distinct(rows, func(r bench.Row) key { return key{chart.Label(r), r.Threads} })
	cells := make(map[key]map[string]bench.Row)
	for _, r := range rows {
		k := key{chart.Label(r), r.Threads}
		if cells[k] == nil {
			cells[k] = make(map[string]bench.Row)
		}
		cells[k][r.Impl] = r
	}
	text := &strings.Builder{}
	fmt.Fprintf(text, "### %s on %s\n\n", inLine(rows[0].Suite), inLine(rows[0].Device))
	heads := append([]string{"case", "heads, q/KV", "sequences × keys", "cache", "threads", "time", "bare read, GB/s"}, impls...)
	compared := slices.ContainsFunc(rows, func(r bench.Row) bool { return r.Times > 0 })
	if compared {
		heads = append(heads, "keys/s against "+bench.BaseOf(rows[0].Suite))
	}
	line(text, heads)
	line(text, rule(len(heads)))
	for _, k := range lines {
		first := cells[k][impls[0]]
		words := []string{
			k.name, fmt.Sprintf("%d/%d", first.QHeads, first.KVHeads), lengths(first), first.KVDType,
			threads(k.threads), bench.Duration(first.Seconds), fmt.Sprintf("%.1f", first.Ceiling/1e9),
		}
		for _, impl := range impls {
			words = append(words, cell(cells[k], impl))
		}
		if compared {
			words = append(words, times(first))
		}
		line(text, words)
	}
	text.WriteString(origin(rows, compared))
	if slices.ContainsFunc(rows, func(r bench.Row) bool { return r.Disturbed() }) {
		text.WriteString(disturbedNote)
	}
	return text.String()
}

const disturbedNote = "~ The bare read itself was disturbed: its fastest round lay more than 15% above the median, or the share is more than all of it, and says little.\n\n"

// times is how a row compares with the one that was measured in turns with it.
func times(r bench.Row) string {
	if r.Times == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f", r.Times)
}

// threads is a number of threads; GPUs have none.
func threads(n int) string {
	if n == 0 {
		return "–"
	}
	return fmt.Sprint(n)
}

func cell(ways map[string]bench.Row, impl string) string {
	r, measured := ways[impl]
	switch {
	case !measured:
		return "–"
	case r.Ceiling == 0: // not known beside this way
		return fmt.Sprintf("%.1f", r.Rate/1e9)
	case r.Share < 0.095:
		return fmt.Sprintf("%.2f (%.1f%%%s)", r.Rate/1e9, 100*r.Share, tilde(r))
	}
	return fmt.Sprintf("%.1f (%.0f%%%s)", r.Rate/1e9, 100*r.Share, tilde(r))
}

// tilde marks a share of a disturbed read.
func tilde(r bench.Row) string {
	if r.Disturbed() {
		return " ~"
	}
	return ""
}

// lengths says how many sequences of how many keys a row has, as far as it tells.
func lengths(r bench.Row) string {
	switch {
	case r.Keys == 0 || r.Keys == r.Batch*r.Len:
		return fmt.Sprintf("%d × %d", r.Batch, r.Len)
	case r.Batch == 1:
		return fmt.Sprintf("1 × %d, %d seen", r.Len, r.Keys)
	}
	return fmt.Sprintf("%d, longest %d, %d in all", r.Batch, r.Len, r.Keys)
}

// origin says how the table came about.
func origin(rows []bench.Row, compared bool) string {
	what := "GB/s of keys and values, and share of the bare read. Time is of " + rows[0].Impl
	if compared {
		what += ", as is what is compared: keys a second (of one length: tokens a second) as a multiple of the other's in the same rounds, the median"
	}
	return originOf(rows, what)
}

// originOf says what the table's figures are, and how they came about.
func originOf(rows []bench.Row, what string) string {
	commits := distinct(rows, func(r bench.Row) string { return r.Commit })
	text := fmt.Sprintf("\n%s. Commit %s", what, inLine(strings.Join(commits, ", ")))
	for _, command := range distinct(rows, func(r bench.Row) string { return r.Command }) {
		if command == "" {
			text += ", a command that these rows do not hold (bench/results/README.md tells it)"
		} else {
			text += fmt.Sprintf(", `%s`", inLine(command))
		}
	}
	return text + ".\n\n"
}

func ratioTable(ratios []bench.Ratio) string {
	if len(ratios) == 0 {
		return ""
	}
	text := &strings.Builder{}
	text.WriteString("## Ratios\n\nHow many times as many keys a second the first of a pair reads as the second: the median over rounds that took both where its table compares them, else of both in one run.\n\n")
	line(text, []string{"first, against second", "device", "threads", "first ÷ second"})
	line(text, rule(4))
	for _, r := range ratios {
		line(text, []string{r.What, r.Device, threads(r.Threads), fmt.Sprintf("%.2f", r.Times)})
	}
	return text.String()
}

func line(w *strings.Builder, cells []string) {
	for _, cell := range cells {
		fmt.Fprintf(w, "| %s ", strings.ReplaceAll(inLine(cell), "|", `\|`))
	}
	w.WriteString("|\n")
}

// inLine is a recorded text without what would end its line or be obeyed by a terminal.
func inLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '\uFFFD'
	}, text)
}

func rule(columns int) []string { return strings.Split(strings.Repeat("---\n", columns-1)+"---", "\n") }

// distinct are the values of a field, in the order of their first rows.
func distinct[T comparable](rows []bench.Row, field func(bench.Row) T) []T {
	var all []T
	seen := make(map[T]bool)
	for _, r := range rows {
		if v := field(r); !seen[v] {
			seen[v] = true
			all = append(all, v)
		}
	}
	return all
}
