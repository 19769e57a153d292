package network

import "testing"

// of is a weight of so many bytes.
func of(bytes int) Linear { return Linear{Matrix: Matrix{Data: make([]byte, bytes)}} }

// TestWeightBytesAreOneTokens: all weights of a layer count, of a mixture as many experts as a
// token takes, and the embedding only as the head. Each weight's size has a bit of its own.
func TestWeightBytesAreOneTokens(t *testing.T) {
	dense := Layer{Query: of(1), Key: of(2), Value: of(4), Out: of(8), Gate: of(16), Up: of(32), Down: of(64)}
	expert := func(unit int) Expert {
		return Expert{GateUp: of(unit), Gate: of(2 * unit), Up: of(4 * unit), Down: of(8 * unit)}
	}
	mixture := Layer{Router: of(128), Experts: []Expert{expert(1 << 8), expert(1 << 8), expert(1 << 16)}}
	n := &Network{ExpertsPerToken: 2, Embedding: of(1 << 20).Matrix, Head: of(1 << 21), Layers: []Layer{dense, mixture}}
	if got, want := n.WeightBytes(), 1<<21+127+128+2*15<<8; got != want {
		t.Errorf("%#x bytes, want %#x", got, want)
	}
	n.ExpertsPerToken = 5 // more than there are
	if got, want := n.WeightBytes(), 1<<21+127+128+2*15<<8+15<<16; got != want {
		t.Errorf("with all experts %#x bytes, want %#x", got, want)
	}
}

// TestMatrixSizes: stored by columns, a matrix has an output a column.
func TestMatrixSizes(t *testing.T) {
	for _, byColumns := range []bool{false, true} {
		m := Matrix{Rows: 3, Cols: 5, ByColumns: byColumns}
		outputs, inputs := 3, 5
		if byColumns {
			outputs, inputs = inputs, outputs
		}
		if m.Outputs() != outputs || m.Inputs() != inputs || m.RowBytes() != 20 {
			t.Errorf("by columns %t: %d outputs, %d inputs, rows of %d bytes, want %d, %d and 20 of float32",
				byColumns, m.Outputs(), m.Inputs(), m.RowBytes(), outputs, inputs)
		}
	}
}
