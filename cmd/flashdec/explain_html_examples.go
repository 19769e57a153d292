package main

import (
	"math"

	"github.com/flashdec/flashdec/internal/explain"
	"github.com/flashdec/flashdec/plan"
)

// examplePage is the page of the derivation's worked examples: the softmax of 2.3.2,
// and the tile of 2.4.1 as a row of three keys, cut as its merge example is.
func (cmd *explainCmd) examplePage() (*explain.Page, error) {
	r := exampleRow{}
	x := &explained{Keys: len(exampleKeys), MaxKey: -1, Traced: -1}
	x.take(r, []plan.Item{{Begin: 0, End: 2}, {Begin: 2, End: 3}})
	if err := x.compare(r); err != nil {
		return nil, err
	}
	p := &explain.Page{
		Title: "The derivation’s worked examples",
		Which: "Three scores, three keys, two processors: small enough to follow with a pencil",
		Facts: []explain.Fact{
			{Name: "Keys", Value: "3"}, {Name: "Key and value dim", Value: "4 and 4"}, {Name: "Arithmetic", Value: "float64"},
		},
		Command: "flashdec explain --html FILE",
		Rule:    "s = q·k/√d, √d = 2.",
		Softmax: softmaxPage(onlineSoftmax().report.(softmaxReport)),
		Vectors: &explain.Vectors{Query: numbers(exampleQuery)},
	}
	for _, key := range r.score(0, len(exampleKeys)) {
		p.Vectors.Rows = append(p.Vectors.Rows, explain.VectorRow{
			Pos: key.pos, Key: numbers(exampleKeys[key.pos]), Value: numbers(exampleValues[key.pos]), Score: number(key.score),
		})
	}
	e := rescaling().report.(rescalingReport)
	p.Rescaling = &explain.Rescaling{
		M1: e.M1, M2: e.M2, Score: e.Score, M: max(e.M1, e.M2), Local: e.Local, Factor: e.Factor, Moved: e.Moved, Global: e.Global, Difference: e.Difference,
	}
	b := pageBuilder{p: p, x: x, r: r, first: 1}
	b.build()
	return p, nil
}

func softmaxPage(e softmaxReport) *explain.Softmax {
	s := &explain.Softmax{How: e.how, Online: e.Softmax, Direct: e.Direct, Sum: e.Sum, Difference: e.Difference}
	for _, step := range e.Steps {
		s.Steps = append(s.Steps, explain.Step{Key: step.Key, Score: step.Score, M: step.M, L: step.L, Grew: step.Grew && step.Key > 0})
	}
	return s
}

// exampleRow is the tile of derivation 2.4.1 as a row to take apart.
type exampleRow struct{}

func (exampleRow) score(begin, end int) []scored { return exampleTile()[begin:end] }
func (exampleRow) value(pos int) []float64       { return exampleValue(pos) }
func (exampleRow) valueDim() int                 { return len(exampleValues[0]) }
func (exampleRow) sinkLogit() *float32           { return nil }

func (r exampleRow) direct() (lse float64, out []float64, err error) {
	state := directOf(exampleTile(), exampleValue, r.valueDim())
	return state.M + math.Log(state.L), state.O, nil
}
