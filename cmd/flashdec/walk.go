package main

import (
	"math"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/internal/explain"
)

// number is a float64 that JSON can carry whatever it is.
type number = explain.Number

func numbers(x []float64) []number { return explain.Numbers(x) }

// scored is a visible key with its score.
type scored struct {
	pos   int
	score float64
}

// traceStep is the state after one key of the recurrence.
type traceStep struct {
	Key   int      `json:"key"`
	Score number   `json:"score"`
	M     number   `json:"m"`
	L     number   `json:"l"`
	O     []number `json:"o,omitempty"`
	Grew  bool     `json:"grew"` // this key became the largest, so the history was rescaled
}

// walk pushes keys into an empty state, one after the other (derivation 2.5). It
// calls see, unless that is nil, after each; grew says that the key became the
// largest. NaN is no number that another could be larger than, or smaller.
func walk(keys []scored, dim int, value func(pos int) []float64, see func(key scored, s *attn.State[float64], grew bool)) attn.State[float64] {
	state := attn.Empty[float64](dim)
	for _, key := range keys {
		before := state.M
		state.Push(key.score, value(key.pos))
		if see != nil {
			see(key, &state, state.M > before)
		}
	}
	return state
}

// stepOf records the state after a key.
func stepOf(key scored, s *attn.State[float64], grew bool) traceStep {
	return traceStep{key.pos, number(key.score), number(s.M), number(s.L), numbers(s.O), grew}
}

// stateReport is a state beside what the merge makes of it (derivation 2.4.2).
type stateReport struct {
	Split    int      `json:"split"`
	Begin    int      `json:"begin"` // keys
	End      int      `json:"end"`
	Keys     int      `json:"keys"` // of them visible
	M        number   `json:"m"`
	L        number   `json:"l"`
	O        []number `json:"o"`
	Rescaled number   `json:"exp_m_b_minus_m"`
	Weight   number   `json:"weight"` // exp(m_b − m)·l_b / l
}

// place fills in what a state's part of a merged one is.
func (r *stateReport) place(state, merged attn.State[float64]) {
	r.M, r.L, r.O = number(state.M), number(state.L), numbers(state.O)
	if state.Empty() {
		return
	}
	scale := math.Exp(state.M - merged.M)
	r.Rescaled, r.Weight = number(scale), number(scale*state.L/merged.L)
}

// furthest is the largest |a − b|; NaN where only one is NaN, or infinities differ.
func furthest(a, b []float64) float64 {
	worst := 0.0
	for i := range a {
		if a[i] == b[i] || math.IsNaN(a[i]) && math.IsNaN(b[i]) {
			continue
		}
		worst = math.Max(worst, math.Abs(a[i]-b[i])) // NaN if either is
	}
	return worst
}
