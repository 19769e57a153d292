package network

import (
	"testing"

	"github.com/flashdec/flashdec/attn"
)

// TestMultiplyAdds of networks small enough to count by hand.
func TestMultiplyAdds(t *testing.T) {
	matrix := func(rows, cols int) Linear { return Linear{Matrix: Matrix{Rows: rows, Cols: cols}} }
	n := &Network{
		Shape:     attn.Shape{NumHeads: 2, NumKVHeads: 1, KeyDim: 3, ValueDim: 5},
		Attention: [NumKinds]attn.Options{Full: {Causal: true}, Sliding: {Causal: true, Window: 2}},
		Layers: []Layer{
			{Kind: Full, Query: matrix(6, 4), Key: matrix(3, 4), Value: matrix(5, 4), Out: matrix(4, 10), Gate: matrix(7, 4), Up: matrix(7, 4), Down: matrix(4, 7)},
			{Kind: Sliding, Router: matrix(3, 4), Experts: []Expert{{GateUp: matrix(4, 14), Down: matrix(7, 4)}, {GateUp: matrix(4, 14), Down: matrix(7, 4)}, {}}},
		},
		Head:            matrix(100, 4),
		ExpertsPerToken: 2,
	}
	const perToken = 6*4 + 3*4 + 5*4 + 4*10 + 3*7*4 + 3*4 + 2*(4*14+7*4)
	// Of three tokens each sees the ones before and itself, and in the window at most two.
	const perKey, full, sliding = 2 * (3 + 5), 1 + 2 + 3, 1 + 2 + 2
	if got, want := n.MultiplyAdds(3), int64(400+3*perToken+perKey*(full+sliding)); got != want {
		t.Errorf("%d multiply-adds, want %d", got, want)
	}
	if got := n.MultiplyAdds(0); got != 400 {
		t.Errorf("%d multiply-adds of no token, want those of the head", got)
	}
}
