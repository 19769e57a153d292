// Package network says what a device computes of a language model: its weights as they lie in the file,
// the choices of its family, and the steps that a forward pass is made of. Package model writes the pass
// down once, in forward.go, over these steps; the CPU computes them there, other devices elsewhere.
package network

import (
	"iter"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/gguf"
)

// Kind is what layers may differ in.
type Kind uint8

const (
	Full    Kind = iota // sees all keys
	Sliding             // sees the newest keys alone
	NumKinds
)

func (k Kind) String() string { return [NumKinds]string{"full", "sliding"}[k] }

// Gate is what an MLP makes of its two projections: h = act(g)·u.
type Gate uint8

const (
	SiLU    Gate = iota // g·σ(g)·u
	GELU                // g·Φ(g)·u, with the tanh approximation of Φ
	Clamped             // g·σ(1.702 g)·(u + 1), g ≤ 7, |u| ≤ 7
)

// Rope turns pairs of a query's or key's elements by angles that grow with the position.
type Rope struct {
	Frequencies []float64 // [HeadDim/2] radians a position
	Scale       float64   // multiplies what is turned (YaRN), 1 for none
	Adjacent    bool      // pair i is elements 2i and 2i+1, not i and i + HeadDim/2
}

// Matrix is a weight as it lies in the file: rows of whole blocks of a type. Its product with x is
// y[r] = Σ_c row[r][c]·x[c], or, stored by columns, y[c] = Σ_r row[r][c]·x[r].
type Matrix struct {
	Rows, Cols int
	Type       gguf.Type
	Data       []byte
	ByColumns  bool // inputs are its rows
}

// Outputs is the size of y.
func (m *Matrix) Outputs() int {
	if m.ByColumns {
		return m.Cols
	}
	return m.Rows
}

// Inputs is the size of x.
func (m *Matrix) Inputs() int {
	if m.ByColumns {
		return m.Rows
	}
	return m.Cols
}

// RowBytes is the size of a row.
func (m *Matrix) RowBytes() int { return m.Type.RowBytes(m.Cols) }

// Linear is a matrix with a bias.
type Linear struct {
	Matrix
	Bias []float32 // [outputs] or nil
}

// Layer is the weights of one layer. What its family does not have is nil.
type Layer struct {
	Kind Kind

	AttnNorm, PostAttnNorm []float32 // [HiddenSize]
	Query, Key, Value, Out Linear
	QueryNorm, KeyNorm     []float32 // [HeadDim]
	Sinks                  []float32 // [NumHeads]

	MLPNorm, PostMLPNorm []float32 // [HiddenSize]
	Gate, Up, Down       Linear
	Router               Linear
	Experts              []Expert
}

// Expert is one MLP of a mixture. Its gate and up are one matrix, as even and odd outputs, or two.
type Expert struct {
	GateUp, Gate, Up, Down Linear
}

// Network is a model, ready to compute.
type Network struct {
	VocabSize       int
	HiddenSize      int
	MLPSize         int // of one expert, where there are experts
	ExpertsPerToken int
	NormEps         float64
	EmbedScale      float64 // of embeddings
	FinalSoftcap    float64 // of logits, 0 for none
	Gate            Gate

	Shape     attn.Shape             // of every layer's attention
	Attention [NumKinds]attn.Options // its rules, sinks apart
	Ropes     [NumKinds]Rope

	Embedding Matrix // [VocabSize, HiddenSize]
	Layers    []Layer
	Norm      []float32 // [HiddenSize]
	Head      Linear    // [VocabSize, HiddenSize]
}

// Has reports whether any layer is of a kind.
func (n *Network) Has(k Kind) bool { return n.NumLayers(k) > 0 }

// NumLayers is how many layers are of a kind.
func (n *Network) NumLayers(k Kind) int {
	count := 0
	for i := range n.Layers {
		if n.Layers[i].Kind == k {
			count++
		}
	}
	return count
}

// WeightBytes is the size of the weights that one token reads, as they lie in the file: of the embedding one
// row, unless it is the head, too, and of a mixture the experts that a token takes.
func (n *Network) WeightBytes() int {
	size := len(n.Head.Data)
	for i := range n.Layers {
		for w := range n.Layers[i].products(n.ExpertsPerToken) {
			size += len(w.Data)
		}
	}
	return size
}

// products are the matrices that a token meets in the layer, as many experts among them; those that it does not have
// are empty.
func (l *Layer) products(experts int) iter.Seq[*Matrix] {
	return func(yield func(*Matrix) bool) {
		met := []*Linear{&l.Query, &l.Key, &l.Value, &l.Out, &l.Gate, &l.Up, &l.Down, &l.Router}
		for i := range l.Experts[:min(experts, len(l.Experts))] {
			e := &l.Experts[i]
			met = append(met, &e.GateUp, &e.Gate, &e.Up, &e.Down)
		}
		for _, w := range met {
			if !yield(&w.Matrix) {
				return
			}
		}
	}
}
