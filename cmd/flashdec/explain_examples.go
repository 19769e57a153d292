package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/flashdec/flashdec/attn"
)

// The numbers of the derivation's examples.
var (
	exampleScores = []scored{{0, 1.0}, {1, 2.0}, {2, 0.5}} // §2.3.2

	exampleQuery  = []float64{0.1, 0.2, 0.3, 0.4} // §2.4.1
	exampleKeys   = [][]float64{{0.5, 0.1, 0.3, 0.2}, {0.2, 0.6, 0.1, 0.4}, {0.3, 0.2, 0.7, 0.1}}
	exampleValues = [][]float64{{0.1, 0.2, 0.3, 0.4}, {0.5, 0.4, 0.3, 0.2}, {0.2, 0.6, 0.1, 0.5}}
)

// onlineSoftmax is the small example of derivation 2.3.2.
func onlineSoftmax() worked {
	var b strings.Builder
	fmt.Fprintln(&b, title("2.3.2", "Softmax, one score at a time"))
	b.WriteString(`
Scores arrive one by one: 1.0, 2.0, 0.5. Keep the largest so far, m, and the sum
l of exp(score − m). When a larger score comes, the old sum is moved to the new
maximum by one factor, exp(m_old − m_new):

    m' = max(m, s)        l' = l·exp(m − m') + exp(s − m')

`)
	var (
		steps []traceStep
		hows  []string
	)
	table := newTable("j", "s", "m", "l", "how l came about")
	how := "exp(1.0 − 1.0)"
	state := walk(exampleScores, 0, func(int) []float64 { return nil }, func(key scored, after *attn.State[float64], grew bool) {
		s := stepOf(key, after, grew)
		if len(steps) > 0 {
			before := steps[len(steps)-1]
			how = fmt.Sprintf("%.3f·exp(%.1f − %.1f) + exp(%.1f − %.1f) = %.3f + %.3f", float64(before.L), float64(before.M), float64(s.M),
				float64(s.Score), float64(s.M), float64(before.L)*math.Exp(float64(before.M-s.M)), math.Exp(float64(s.Score-s.M)))
		}
		table.AppendRow(row(s.Key+1, fixed(s.Score, 1), fixed(s.M, 1), fixed(s.L, 3), how))
		steps, hows = append(steps, s), append(hows, how)
	})
	online := softmaxOf(exampleScores, state.M, state.L)
	sum, direct := 0.0, make([]float64, len(exampleScores))
	for _, s := range exampleScores {
		sum += math.Exp(s.score)
	}
	for i, s := range exampleScores {
		direct[i] = math.Exp(s.score) / sum
	}
	verdict, ok := agree(furthest(online, direct), exact)
	fmt.Fprintf(&b, "%s\n\nsoftmax(s) = exp(s − m)/l    = %s\ndirectly   = exp(s)/%.3f    = %s\n%s",
		render(table), vector(online, 3), sum, vector(direct, 3), verdict)
	return worked{b.String(), softmaxReport{
		"online softmax", "2.3.2", steps, hows, number(sum), numbers(online), numbers(direct), number(furthest(online, direct)), ok,
	}, ok}
}

// softmaxReport is the example of derivation 2.3.2 as data.
type softmaxReport struct {
	Example    string      `json:"example"`
	Section    string      `json:"section"`
	Steps      []traceStep `json:"steps"`
	how        []string    // each l came about
	Sum        number      `json:"sum_of_exp"`
	Softmax    []number    `json:"softmax"`
	Direct     []number    `json:"direct"`
	Difference number      `json:"difference"`
	OK         bool        `json:"ok"`
}

// oneTile is the table of derivation 2.4.1.
func oneTile() worked {
	keys := exampleTile()
	var b strings.Builder
	fmt.Fprintln(&b, title("2.4.1", "Attention over one tile, one key at a time"))
	fmt.Fprintf(&b, `
The query %s meets three keys. A score is q·k/√d, √d = 2:

`, vector(exampleQuery, 1))
	table := newTable("j", "key", "value", "s")
	for _, key := range keys {
		table.AppendRow(row(key.pos+1, vector(exampleKeys[key.pos], 1), vector(exampleValues[key.pos], 1), fixed(key.score, 4)))
	}
	fmt.Fprintf(&b, `%s

The state (m, l, o) carries the softmax-weighted average of the values along:

    o' = (l·exp(m − m')·o + exp(s − m')·v) / l'

`, render(table))
	table = newTable("j", "m", "l", "o")
	var steps []traceStep
	state := walk(keys, 4, exampleValue, func(key scored, after *attn.State[float64], grew bool) {
		s := stepOf(key, after, grew)
		steps = append(steps, s)
		table.AppendRow(row(s.Key+1, fixed(s.M, 4), fixed(s.L, 4), vector(s.O, 3)))
	})
	direct := directOf(keys, exampleValue, 4)
	difference := furthest(append(state.O, state.L, state.M), append(direct.O, direct.L, direct.M))
	verdict, ok := agree(difference, exact)
	fmt.Fprintf(&b, "%s\n\ndirectly: m = %.4f, l = %.4f, o = %s\n%s", render(table), direct.M, direct.L, vector(direct.O, 3), verdict)
	return worked{b.String(), map[string]any{
		"example": "attention of one tile", "section": "2.4.1", "steps": steps,
		"m": direct.M, "l": direct.L, "o": state.O, "direct": direct.O, "difference": difference, "ok": ok,
	}, ok}
}

// rescaling is the scale example of derivation 2.4.2.
func rescaling() worked {
	const m1, m2, s = 5.0, 8.0, 3.0
	m := math.Max(m1, m2)
	local, factor, global := math.Exp(s-m1), math.Exp(m1-m), math.Exp(s-m)
	verdict, ok := agree(math.Abs(local*factor-global), exact)
	var b strings.Builder
	fmt.Fprintln(&b, title("2.4.2", "From a tile's scale to the common one"))
	fmt.Fprintf(&b, `
Tile 1 has the maximum 5.0, tile 2 has 8.0, so the common one is %.1f. A score of
3.0 in tile 1 was summed relative to 5.0. One factor a tile moves it:

    in tile 1        exp(3 − 5)               = %.3f
    wanted           exp(3 − 8)               = %.5f
    moved            exp(3 − 5)·exp(5 − 8)    = %.3f · %.4f = %.5f

%s`,
		m, local, global, local, factor, local*factor, verdict)
	return worked{b.String(), rescalingReport{
		"rescaling", "2.4.2", m1, m2, s, number(local), number(factor), number(global), number(local * factor), number(math.Abs(local*factor - global)), ok,
	}, ok}
}

// rescalingReport is the example of scales of derivation 2.4.2 as data.
type rescalingReport struct {
	Example    string `json:"example"`
	Section    string `json:"section"`
	M1         number `json:"m1"`
	M2         number `json:"m2"`
	Score      number `json:"score"`
	Local      number `json:"local"`
	Factor     number `json:"factor"`
	Global     number `json:"global"`
	Moved      number `json:"moved"`
	Difference number `json:"difference"`
	OK         bool   `json:"ok"`
}

// mergeOfTiles cuts the tile of 2.4.1 in two and merges (derivation 2.4.2, 2.6).
func mergeOfTiles() worked {
	keys := exampleTile()
	cuts := [][]scored{keys[:2], keys[2:]}
	states := make([]attn.State[float64], len(cuts))
	for i, cut := range cuts {
		states[i] = walk(cut, 4, exampleValue, nil)
	}
	merged := attn.Empty[float64](4)
	attn.Merge(&merged, states...)
	direct := directOf(keys, exampleValue, 4)
	difference := furthest(append(merged.O, merged.L, merged.M), append(direct.O, direct.L, direct.M))
	verdict, ok := agree(difference, exact)

	var b strings.Builder
	fmt.Fprintln(&b, title("2.4.2 and 2.6", "Two processors, one answer"))
	b.WriteString(`
The three keys again, on two processors: one has keys 1 and 2, the other key 3.
Neither o is the answer. Weighed by exp(m_b − m)·l_b they are:

    m = max m_b     l = Σ exp(m_b − m)·l_b     o = Σ exp(m_b − m)·l_b·o_b / l

`)
	table := newTable("tile", "m_b", "l_b", "exp(m_b − m)", "o_b", "weight")
	reports := make([]stateReport, len(states))
	first := 0
	for i, state := range states {
		r := &reports[i]
		*r = stateReport{Split: i, Begin: first, End: first + len(cuts[i]), Keys: len(cuts[i])}
		r.place(state, merged)
		first = r.End
		table.AppendRow(row(i+1, fixed(r.M, 4), fixed(r.L, 4), fixed(r.Rescaled, 4), vector(r.O, 3), percent(float64(r.Weight))))
	}
	fmt.Fprintf(&b, "%s\n\nmerged:   m = %.4f, l = %.4f, o = %s\ndirectly: m = %.4f, l = %.4f, o = %s\n%s", render(table),
		merged.M, merged.L, vector(merged.O, 3), direct.M, direct.L, vector(direct.O, 3), verdict)
	return worked{b.String(), map[string]any{
		"example": "merge", "section": "2.4.2", "states": reports, "m": merged.M, "l": merged.L, "o": merged.O,
		"direct": direct.O, "difference": difference, "ok": ok,
	}, ok}
}

// exampleTile is the keys of 2.4.1 with their scores.
func exampleTile() []scored {
	var options attn.Options
	keys := make([]scored, len(exampleKeys))
	for j, k := range exampleKeys {
		qk := 0.0
		for d, x := range k {
			qk += exampleQuery[d] * x
		}
		keys[j] = scored{j, options.Score(qk, options.ScaleFor(len(k)), 0, 0)}
	}
	return keys
}

func exampleValue(pos int) []float64 { return exampleValues[pos] }

// directOf is the state of keys by the direct form: the maximum first, then the
// sums (derivation 2.4.1).
func directOf(keys []scored, value func(pos int) []float64, dim int) attn.State[float64] {
	direct := attn.Empty[float64](dim)
	for _, key := range keys {
		direct.M = math.Max(direct.M, key.score)
	}
	for _, key := range keys {
		p := math.Exp(key.score - direct.M)
		direct.L += p
		for d, v := range value(key.pos) {
			direct.O[d] += p * v
		}
	}
	for d := range direct.O {
		direct.O[d] /= direct.L
	}
	return direct
}

func fixed[F ~float64](x F, decimals int) string { return fmt.Sprintf("%.*f", decimals, float64(x)) }

func percent(x float64) string {
	if x > 0 && x < 0.0005 { // one decimal would show nothing
		return fmt.Sprintf("%.1g%%", 100*x)
	}
	return fmt.Sprintf("%.1f%%", 100*x)
}
