package backendtest

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/kv"
)

var laws = []test{
	{"AnySplitEqualsDirect", (*config).lawAnySplit},
	{"SplitBordersInsideTiles", (*config).lawSplitBorders},
	{"AddedConstantShiftsOnlyTheLSE", (*config).lawConstant},
	{"StatesOfPartsMergeToTheWhole", (*config).lawStates},
	{"RowsAreIndependent", (*config).lawRows},
}

// lawAnySplit: every number of splits of a small sequence.
func (c *config) lawAnySplit(t *testing.T, b backend.Backend) {
	for _, n := range []int{1, 2, 37, 100} {
		cs := small(n)
		cs.Queries = []int{2}
		cs.Options.Causal = true
		s := cs.Build()
		for splits := 1; splits <= n; splits++ {
			s.Case.NumSplits = splits
			c.verifyStep(t, b, s)
		}
	}
}

// lawSplitBorders: splits that are no multiple of any tile; each key counts
// once, so the mean of ones is exactly 1 and l is the number of keys.
func (c *config) lawSplitBorders(t *testing.T, b backend.Backend) {
	const n = 500
	cs := small(n)
	cs.Shape = attn.Shape{NumHeads: 1, NumKVHeads: 1, KeyDim: 4, ValueDim: 2}
	cs.PageSize = 8
	cs.Query = equalScores
	cs.Value = func(dst []float32, _, _, _ int) { fillWith(dst, 1) }
	s := cs.Build()
	for splits := 1; splits <= n; splits++ {
		s.Case.NumSplits = splits
		states, err := decodeStates(b, s)
		if err != nil {
			t.Fatal(err)
		}
		if states.L[0] != n || states.O[0] != 1 {
			t.Errorf("%d splits: l = %v and o = %v, want exactly %d and 1", splits, states.L[0], states.O[0], n)
		}
	}
}

// lawConstant: one more key dimension, 1 in the queries and x in the keys, adds
// x to all scores.
func (c *config) lawConstant(t *testing.T, b backend.Backend) {
	base := small(300, 41)
	base.Options.Scale = 0.25
	base.Query = func(dst []float32, _, _, _ int) { dst[0] = 1 }
	withConstant := func(x float32) Result {
		cs := base
		cs.Key = func(dst []float32, _, _, _ int) { dst[0] = 4 * x }
		return c.verify(t, b, cs)
	}
	want := withConstant(0)
	for _, x := range []float32{-20, 1, 7, 100} {
		got := withConstant(x)
		// Each result is within its limits; the constant adds to what scores are made of.
		l, spread := attn.Float32Limits(base.Shape.KeyDim), 0x1p-24*math.Abs(float64(x))
		for i := range want.Out {
			if d := math.Abs(float64(got.Out[i]) - float64(want.Out[i])); !(d <= 2*l.Out+l.Score*spread) {
				t.Fatalf("%v added to all scores moves out[%d] by %v", x, i, d)
			}
		}
		for i := range want.LSE {
			shift := float64(got.LSE[i]) - float64(want.LSE[i])
			if d := math.Abs(shift - float64(x)); !(d <= 2*l.LSE+l.Score*spread+2*l.LSERelative*math.Abs(float64(x))) {
				t.Fatalf("%v added to all scores shifts lse[%d] by %v", x, i, shift)
			}
		}
	}
}

// decodeStates computes a step's states, and checks that nothing else is written.
func decodeStates(b backend.Backend, s *Step) (*attn.States, error) {
	p, err := s.Plan(b.Info())
	if err != nil {
		return nil, err
	}
	l := s.Launch(p)
	rows := l.NumQueries() * s.Case.Shape.NumHeads
	m, sum, o, out := newGuarded(rows), newGuarded(rows), newGuarded(rows*s.Case.Shape.ValueDim), newGuarded(0)
	l.States = &attn.States{ValueDim: s.Case.Shape.ValueDim, M: m.inner(), L: sum.inner(), O: o.inner()}
	l.Out, l.LSE = out, nil
	if err := l.Validate(); err != nil {
		return nil, err
	}
	if err := b.Decode(context.Background(), l); err != nil {
		return nil, err
	}
	for i, x := range out {
		if math.Float32bits(x) != guardBits {
			return nil, fmt.Errorf("out[%d] is written, though states were asked for", i)
		}
	}
	for name, g := range map[string]guarded{"m": m, "l": sum, "o": o} {
		if err := g.check("the states' " + name); err != nil {
			return nil, err
		}
	}
	return l.States, nil
}

// lawStates: states of the first keys and of the rest, merged, and the sinks
// added then, equal the whole. Either part may be empty.
func (c *config) lawStates(t *testing.T, b backend.Backend) {
	for _, cut := range []int{0, 16, 160, 304, 320} {
		for _, splits := range []int{0, 1, 3} {
			cs := small(320, 300)
			cs.NumSplits = splits
			cs.Options.Sinks = []float32{1, -2, 0, 5}
			s := cs.Build()
			front, err := decodeStates(b, s.part(0, cut))
			if err != nil {
				t.Fatal(err)
			}
			back, err := decodeStates(b, s.part(cut, 320))
			if err != nil {
				t.Fatal(err)
			}
			if err := c.judge(s, s.finish(front, back)); err != nil {
				t.Errorf("cut at %d, %d splits: %v", cut, splits, err)
			}
		}
	}
}

// part is the step with the keys [from, to) of each sequence only, which must
// be whole pages.
func (s *Step) part(from, to int) *Step {
	c := *s.Case
	c.Lens = nil
	part := &Step{Case: &c, Q: s.Q, View: s.View}
	part.View.Seqs = nil
	for _, seq := range s.View.Seqs {
		n := max(min(seq.Len, to)-from, 0)
		part.View.Seqs = append(part.View.Seqs, kv.Table{Pages: seq.Pages[min(from/s.View.PageSize, len(seq.Pages)):], Len: n})
		c.Lens = append(c.Lens, n)
	}
	return part
}

// finish merges two parts' states and adds the sinks.
func (s *Step) finish(front, back *attn.States) Result {
	dim := s.Case.Shape.ValueDim
	rows := len(front.M)
	r := Result{make([]float32, rows*dim), make([]float32, rows)}
	for i := range rows {
		merged := attn.State[float32]{O: r.Out[i*dim:][:dim]}
		sink := s.Case.Options.Sinks[i%s.Case.Shape.NumHeads]
		attn.Merge(&merged, front.Row(i), back.Row(i), attn.SinkState[float32](sink))
		r.LSE[i] = float32(merged.LSE())
	}
	return r
}

// lawRows: what one head or query holds changes no bit of another's result.
func (c *config) lawRows(t *testing.T, b backend.Backend) {
	cs := small(200, 90)
	cs.Queries, cs.NumSplits = []int{3, 1}, 2
	before := c.verify(t, b, cs)
	cs.Query = func(dst []float32, seq, query, head int) {
		if seq == 0 && query == 1 && head == 2 {
			fillWith(dst, nan())
		}
	}
	after := c.verify(t, b, cs)
	const row = 1*4 + 2
	dim := cs.Shape.ValueDim
	after.LSE[row] = before.LSE[row]
	copy(after.Out[row*dim:][:dim], before.Out[row*dim:][:dim])
	if err := sameBits(before, after); err != nil {
		t.Errorf("a NaN in one query row changes another: %v", err)
	}
}
