package attn_test

import (
	"math"
	"testing"

	"github.com/flashdec/flashdec/attn"
)

// TestWeigh: weights are those of the merge, and empty states have none.
func TestWeigh(t *testing.T) {
	inf, high := math.Inf(1), 1.75
	lower := 4 * math.Exp(1-high)
	state := func(m, l float64) attn.State[float32] { return attn.State[float32]{M: m, L: l} }
	for name, x := range map[string]struct {
		states []attn.State[float32]
		weight []float64
		m, l   float64

		withoutRoom int
	}{
		"none":         {nil, nil, -inf, 0, 0},
		"all empty":    {[]attn.State[float32]{state(-inf, 0), state(-inf, 5)}, []float64{0, 0}, -inf, 0, 0},
		"one empty":    {[]attn.State[float32]{state(-inf, 3), state(2, 5)}, []float64{0, 5}, 2, 5, 0},
		"two":          {[]attn.State[float32]{state(1, 4), state(high, 3)}, []float64{lower, 3}, high, lower + 3, 0},
		"short of one": {[]attn.State[float32]{state(1, 4), state(9, 3)}, []float64{4}, 1, 4, 1},
	} {
		weight := make([]float64, len(x.states)-x.withoutRoom)
		for b := range weight {
			weight[b] = 7
		}
		m, l := attn.Weigh(weight, x.states)
		if m != x.m || l != x.l {
			t.Errorf("%s: m %v and l %v, want %v and %v", name, m, l, x.m, x.l)
		}
		for b := range x.weight {
			if weight[b] != x.weight[b] {
				t.Errorf("%s: weights %v, want %v", name, weight, x.weight)
			}
		}
	}
	if m, _ := attn.Weigh(make([]float64, 2), []attn.State[float32]{state(math.NaN(), 1), state(3, 1)}); !math.IsNaN(m) {
		t.Errorf("beside a NaN state m is %v, want NaN", m)
	}
}
