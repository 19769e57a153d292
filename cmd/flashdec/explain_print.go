package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/flashdec/flashdec/internal/explain"
)

func (x *explained) print(t *terminal, c *decodeCase) {
	t.printf("%s\n\n", x.heading(c))
	t.printf("%s\n\n", title("2.4.1", "The scores"))
	t.printf("%s\n", x.scoreRule(c))
	if x.Visible == 0 {
		t.printf("This query sees none of its %d keys. The state of no keys is (−Inf, 0, 0):\nout is zero", x.Keys)
		if x.Sink != nil {
			t.printf(", and only the sink %.4g is in the denominator", float64(*x.Sink))
		}
		t.printf(", LSE = %.4f.\n", float64(x.LSE))
	} else {
		t.printf("%s\n", fold(fmt.Sprintf("%d of %s are visible. %s", x.Visible, count(x.Keys, "key"), x.scoreWords(c)), 0))
		x.printSteps(t)
		x.printStates(t)
	}
	x.printComparison(t)
}

func (x *explained) heading(c *decodeCase) string {
	name := quotePath(x.File)
	if c.name != "" {
		name = printable(c.name)
	}
	return fmt.Sprintf("%s\nsequence %d, query head %d (of KV head %d), %s at position %d", name, x.Seq, x.Head, x.KVHead, x.queryName(c), x.Position)
}

// queryName is which query it is, and of which where there are more.
func (x *explained) queryName(c *decodeCase) string {
	if c.queries == 1 {
		return "query 0"
	}
	return fmt.Sprintf("query %d (of %s)", x.Query, explain.KeyRange(0, c.queries))
}

// scoreWords tells where the scores lie, or that some are NaN.
func (x *explained) scoreWords(c *decodeCase) string {
	if x.NaNKey >= 0 {
		return fmt.Sprintf("The score of key %d%s is NaN, and so is all that follows from it.", x.NaNKey, quoted(c, x.NaNKey))
	}
	return fmt.Sprintf("Scores lie from %.4f to %.4f, %.4f on average; the largest is that of key %d%s.",
		float64(x.MinScore), float64(x.MaxScore), float64(x.MeanScore), x.MaxKey, quoted(c, x.MaxKey))
}

// scoreRule words how a score comes about, in the fixed order of the rules.
func (x *explained) scoreRule(c *decodeCase) string {
	o := &c.options
	rule := fmt.Sprintf("s = %.6g·(q·k)", x.Scale)
	if o.Softcap > 0 {
		rule = fmt.Sprintf("s = %g·tanh(%.6g·(q·k)/%g)", o.Softcap, x.Scale, o.Softcap)
	}
	if o.Slopes != nil {
		rule += fmt.Sprintf(" + %.6g·(key position − query position)", o.Slopes[x.Head])
	}
	var hides []string
	if o.Causal {
		hides = append(hides, "the keys after the query")
	}
	if o.Window > 0 {
		hides = append(hides, fmt.Sprintf("all but the newest %d keys", o.Window))
	}
	if o.Mask != nil {
		hides = append(hides, "what the mask hides")
	}
	if len(hides) > 0 {
		rule += ", without " + strings.Join(hides, " and ")
	}
	return fold(rule+".", 0)
}

func (x *explained) printSteps(t *terminal) {
	s := x.States[x.Traced]
	t.printf("\n%s\n\n", title("2.5 (2c)", fmt.Sprintf("The recurrence, over keys %d to %d", s.Begin, s.End-1)))
	table := newTable("key", "s", "m", "l", "o")
	last := 0
	for i, step := range x.Steps {
		if i > 0 && step.Key != last+1 {
			table.AppendRow(row("⋮", "", "", "", ""))
		}
		last = step.Key
		grew := ""
		if step.Grew {
			grew = " ↑"
		}
		table.AppendRow(row(step.Key, fixed(step.Score, 4), fixed(step.M, 4)+grew, fixed(step.L, 4), short(step.O)))
	}
	t.printf("%s\n", render(table))
	switch {
	case x.Grew > 0:
		t.printf("The maximum grew %s (↑): each time exp(m − m') scaled the history.\n", count(x.Grew, "time"))
	case x.NaNKey < 0 || x.NaNKey >= s.End:
		t.printf("The first key was the largest: the history was never scaled.\n")
	}
}

func (x *explained) printStates(t *terminal) {
	t.printf("\n%s\n\n", title("2.4.2", fmt.Sprintf("One state for each of %s (--splits), and the merge", count(len(x.States), "split"))))
	const most = 32
	table := newTable("keys", "m_b", "l_b", "exp(m_b − m)", "weight", "o_b")
	for i, s := range x.States {
		if i == most {
			table.AppendRow(row("⋮", "", "", "", "", fmt.Sprintf("%d more", len(x.States)-most)))
			break
		}
		table.AppendRow(row(explain.KeyRange(s.Begin, s.End), fixed(s.M, 4), fixed(s.L, 4),
			fmt.Sprintf("%.4g", float64(s.Rescaled)), percent(float64(s.Weight)), short(s.O)))
	}
	if x.Sink != nil {
		weight := math.Exp(float64(*x.Sink)-float64(x.M)) / float64(x.L)
		table.AppendRow(row("sink", fixed(*x.Sink, 4), "1.0000", fmt.Sprintf("%.4g", math.Exp(float64(*x.Sink-x.M))), percent(weight), "no value"))
	}
	t.printf("%s\n", render(table))
}

func (x *explained) printComparison(t *terminal) {
	t.printf("\n%s\n\n", title("2.6", "Merged and direct"))
	table := newTable("", "lse", "out")
	table.AppendRow(row("merged", fixed(x.LSE, 9), short(x.Out)))
	table.AppendRow(row("direct", fixed(x.DirectLSE, 9), short(x.DirectOut)))
	mark := "✓"
	if !x.OK {
		mark = "✗"
	}
	t.printf("%s\nlargest difference over all %d elements and the LSE: %.2g %s\n", render(table), len(x.Out), float64(x.Difference), mark)
}

// short is the first elements of a vector, as many as a table's column holds.
func short(o []number) string {
	const most = 3
	if len(o) <= most {
		return vector(o, 4)
	}
	text := vector(o[:most], 4)
	return strings.TrimSuffix(text, "]") + " …]"
}

// quoted is a key's text, where the file has it.
func quoted(c *decodeCase, pos int) string {
	if c.pieces == nil {
		return ""
	}
	return fmt.Sprintf(" “%s”", clip(c.pieces[pos], longestPiece))
}
