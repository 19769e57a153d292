package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flashdec/flashdec/internal/network"
)

// loader takes a model's weights out of a source. The first error stays, and what comes after is empty.
type loader struct {
	cfg    *Config
	source *source
	names  namer
	layer  int // −1 for what belongs to none
	used   map[string]bool
	err    error
}

// fail keeps the first error. It wraps ErrWeight.
func (l *loader) fail(format string, args ...any) {
	if l.err == nil {
		l.err = fmt.Errorf("%w: "+format, append([]any{ErrWeight}, args...)...)
	}
}

// has reports whether the file has the tensor of a role.
func (l *loader) has(r role) bool {
	_, ok := l.source.tensors[l.names.name(r, l.layer)]
	return ok
}

// tensor finds a tensor and checks its shape.
func (l *loader) tensor(name string, shape ...int) stored {
	t, ok := l.source.tensors[name]
	switch {
	case l.err != nil:
	case !ok:
		l.fail("tensor %q is missing, want one of shape %v", name, shape)
	case !slices.Equal(t.shape, shape):
		l.fail("tensor %q has shape %v, want %v", name, t.shape, shape)
	case t.t == noType:
		l.fail("tensor %q is of a type that weights may not have, want F32, F16 or BF16", name)
	default:
		l.used[name] = true
		return t
	}
	return stored{}
}

// vector reads a small tensor as float32; one of all shape's dimensions in a row.
func (l *loader) vector(name string, shape ...int) []float32 {
	t := l.tensor(name, shape...)
	if l.err != nil {
		return nil
	}
	n := 1
	for _, d := range shape {
		n *= d
	}
	out := make([]float32, n)
	read(t.t, out, t.data)
	return out
}

// norm reads a norm's weights.
func (l *loader) norm(r role, n int) []float32 {
	w := l.vector(l.names.name(r, l.layer), n)
	if l.cfg.family.fromOne && !l.names.gguf {
		for i := range w {
			w[i]++
		}
	}
	return w
}

// normIf reads a norm that the family has or has not.
func (l *loader) normIf(has bool, r role, n int) []float32 {
	if !has {
		return nil
	}
	return l.norm(r, n)
}

// linear finds a matrix of so many outputs and inputs, and its bias: one that must be there, or one that
// is there.
func (l *loader) linear(r role, outputs, inputs int, biased bool) network.Linear {
	name := l.names.name(r, l.layer)
	t := l.tensor(name, outputs, inputs)
	w := network.Linear{Matrix: network.Matrix{Rows: outputs, Cols: inputs, Type: t.t, Data: t.data}}
	bias := biasOf(name)
	if _, there := l.source.tensors[bias]; there || biased {
		w.Bias = l.vector(bias, outputs)
	}
	return w
}

// biasOf is the name of a weight's bias.
func biasOf(name string) string {
	if stem, ok := strings.CutSuffix(name, ".weight"); ok {
		return stem + ".bias"
	}
	return name + "_bias"
}

// stack finds the matrices and biases of all experts, which lie in one tensor each.
func (l *loader) stack(r role, outputs, inputs int, byColumns bool) []network.Linear {
	experts := l.cfg.NumExperts
	name, rows, cols := l.names.name(r, l.layer), outputs, inputs
	if byColumns {
		rows, cols = inputs, outputs
	}
	t := l.tensor(name, experts, rows, cols)
	biases := l.vector(biasOf(name), experts, outputs)
	if l.err != nil {
		return nil
	}
	if byColumns && t.t.BlockElements() != 1 {
		l.fail("tensor %q is %v, want F32, F16 or BF16", name, t.t)
		return nil
	}
	size := len(t.data) / experts
	list := make([]network.Linear, experts)
	for i := range list {
		list[i] = network.Linear{
			Matrix: network.Matrix{Rows: rows, Cols: cols, Type: t.t, Data: t.data[i*size : (i+1)*size], ByColumns: byColumns},
			Bias:   biases[i*outputs : (i+1)*outputs],
		}
	}
	return list
}

// checkUsed refuses tensors of layers that nothing uses: a model that is computed without them is
// another model.
func (l *loader) checkUsed() {
	prefix := l.names.prefix + "layers."
	if l.names.gguf {
		prefix = "blk."
	}
	var left []string
	for name := range l.source.tensors {
		if strings.HasPrefix(name, prefix) && !l.used[name] && !strings.HasSuffix(name, ".rotary_emb.inv_freq") {
			left = append(left, name)
		}
	}
	if len(left) > 0 {
		slices.Sort(left)
		l.fail("tensor %q has no place in a %s model of %d layers", left[0], l.cfg.Family, l.cfg.NumLayers())
	}
}

// load takes out all weights. It wraps ErrWeight.
func (l *loader) load() (*network.Network, error) {
	c := l.cfg
	l.used, l.layer = map[string]bool{}, -1
	c.divideFrequencies(l.ropeDivisors())
	n := c.network()
	embed := l.tensor(l.names.name(embedding, -1), c.VocabSize, c.HiddenSize)
	n.Embedding = network.Matrix{Rows: c.VocabSize, Cols: c.HiddenSize, Type: embed.t, Data: embed.data}
	n.Norm = l.norm(finalNorm, c.HiddenSize)
	if c.tied {
		n.Head.Matrix = n.Embedding
	} else {
		n.Head = l.linear(head, c.VocabSize, c.HiddenSize, false)
	}
	for i, k := range c.layers {
		if l.err != nil {
			return nil, l.err
		}
		l.layer = i
		n.Layers = append(n.Layers, l.loadLayer(k))
	}
	l.checkUsed()
	return n, l.err
}

func (l *loader) loadLayer(k kind) network.Layer {
	c, f := l.cfg, l.cfg.family
	heads, kvHeads, biased := c.NumHeads*c.HeadDim, c.NumKVHeads*c.HeadDim, f.qkvBias || c.biased
	w := network.Layer{
		Kind:         k,
		AttnNorm:     l.norm(attnNorm, c.HiddenSize),
		Query:        l.linear(query, heads, c.HiddenSize, biased),
		Key:          l.linear(key, kvHeads, c.HiddenSize, biased),
		Value:        l.linear(value, kvHeads, c.HiddenSize, biased),
		Out:          l.linear(attnOut, c.HiddenSize, heads, c.biased),
		QueryNorm:    l.normIf(f.queryNorm, queryNorm, c.HeadDim),
		KeyNorm:      l.normIf(f.queryNorm, keyNorm, c.HeadDim),
		PostAttnNorm: l.normIf(f.postNorms, postAttnNorm, c.HiddenSize),
		MLPNorm:      l.norm(mlpNorm, c.HiddenSize),
		PostMLPNorm:  l.normIf(f.postNorms, postMLPNorm, c.HiddenSize),
	}
	if f.sinks {
		w.Sinks = l.vector(l.names.name(sinks, l.layer), c.NumHeads)
	}
	if f.experts {
		w.Router = l.linear(router, c.NumExperts, c.HiddenSize, true)
		w.Experts = l.loadExperts()
		return w
	}
	w.Gate = l.linear(gateProj, c.MLPSize, c.HiddenSize, false)
	w.Up = l.linear(upProj, c.MLPSize, c.HiddenSize, false)
	w.Down = l.linear(downProj, c.HiddenSize, c.MLPSize, false)
	return w
}

func (l *loader) loadExperts() []network.Expert {
	c := l.cfg
	list := make([]network.Expert, c.NumExperts)
	put := func(from []network.Linear, to func(e *network.Expert) *network.Linear) {
		for i := range from {
			*to(&list[i]) = from[i]
		}
	}
	if l.names.gguf {
		put(l.stack(expertGate, c.MLPSize, c.HiddenSize, false), func(e *network.Expert) *network.Linear { return &e.Gate })
		put(l.stack(expertUp, c.MLPSize, c.HiddenSize, false), func(e *network.Expert) *network.Linear { return &e.Up })
	} else {
		put(l.stack(expertGateUp, 2*c.MLPSize, c.HiddenSize, true), func(e *network.Expert) *network.Linear { return &e.GateUp })
	}
	put(l.stack(expertDown, c.HiddenSize, c.MLPSize, !l.names.gguf), func(e *network.Expert) *network.Linear { return &e.Down })
	return list
}

// ropeDivisors are what a GGUF file divides rotary frequencies by, nil for none.
func (l *loader) ropeDivisors() []float32 {
	if !l.names.gguf || !l.has(ropeFactors) {
		return nil
	}
	return l.vector(l.names.name(ropeFactors, -1), l.cfg.HeadDim/2)
}
