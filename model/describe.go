package model

import (
	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/internal/network"
)

// describe is the model as devices know it. Nothing is copied but headers.
func (m *Model) describe() *network.Network {
	c, w := &m.config, m.weights
	n := &network.Network{
		VocabSize: c.VocabSize, HiddenSize: c.HiddenSize, MLPSize: c.MLPSize, ExpertsPerToken: c.ExpertsPerToken,
		NormEps: c.NormEps, EmbedScale: c.EmbedScale, FinalSoftcap: c.FinalSoftcap,
		Gate:      [...]network.Gate{silu: network.SiLU, gelu: network.GELU, clamped: network.Clamped}[c.gated],
		Shape:     c.Shape(),
		Embedding: w.embedding.describe(), Norm: w.norm, Head: w.head.describe(),
	}
	for k := range numKinds {
		n.Attention[k] = attn.Options{Scale: c.Scale, Softcap: c.Softcap, Causal: true, Window: c.window(k)}
		n.Ropes[k] = network.Rope{Frequencies: c.ropes[k].frequencies, Scale: c.ropes[k].scale, Adjacent: c.ropes[k].adjacent}
	}
	for i := range w.layers {
		n.Layers = append(n.Layers, w.layers[i].describe())
	}
	return n
}

func (l *layer) describe() network.Layer {
	d := network.Layer{
		Kind:     l.kind,
		AttnNorm: l.attnNorm, PostAttnNorm: l.postAttnNorm,
		Query: l.query.describe(), Key: l.key.describe(), Value: l.value.describe(), Out: l.out.describe(),
		QueryNorm: l.queryNorm, KeyNorm: l.keyNorm, Sinks: l.sinks,
		MLPNorm: l.mlpNorm, PostMLPNorm: l.postMLPNorm,
		Gate: l.gate.describe(), Up: l.up.describe(), Down: l.down.describe(), Router: l.router.describe(),
	}
	for i := range l.experts {
		e := &l.experts[i]
		d.Experts = append(d.Experts, network.Expert{
			GateUp: e.gateUp.describe(), Gate: e.gate.describe(), Up: e.up.describe(), Down: e.down.describe(),
		})
	}
	return d
}

func (w *linear) describe() network.Linear {
	return network.Linear{Matrix: w.matrix.describe(), Bias: w.bias}
}

func (m *matrix) describe() network.Matrix {
	return network.Matrix{Rows: m.rows, Cols: m.cols, Type: m.t, Data: m.data, ByColumns: m.byColumns}
}
