package backendtest

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/kv"
)

// sweepRandom: shapes and rules that nobody thought of.
func (c *config) sweepRandom(t *testing.T, b backend.Backend) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawCase(t).Build()
		r, err := decode(b, s)
		if err == nil {
			err = c.judge(s, r)
		}
		if err != nil {
			t.Fatalf("%+v: %v", *s.Case, err)
		}
	})
}

// drawCase draws a case that takes some milliseconds at most.
func drawCase(t *rapid.T) Case {
	heads := rapid.IntRange(1, 3).Draw(t, "KV heads")
	c := Case{
		Seed: rapid.Uint64().Draw(t, "seed"),
		Shape: attn.Shape{
			NumKVHeads: heads,
			NumHeads:   heads * rapid.IntRange(1, 9).Draw(t, "group"),
			KeyDim:     rapid.IntRange(1, 70).Draw(t, "key dim"),
			ValueDim:   rapid.IntRange(1, 70).Draw(t, "value dim"),
		},
		KType:     rapid.SampledFrom(types).Draw(t, "key type"),
		VType:     rapid.SampledFrom(types).Draw(t, "value type"),
		Layout:    rapid.SampledFrom([]kv.Layout{kv.HND, kv.NHD}).Draw(t, "layout"),
		PageSize:  rapid.IntRange(0, 40).Draw(t, "page size"),
		PageSeed:  rapid.Uint64().Draw(t, "page order"),
		Pad:       rapid.IntRange(0, 2).Draw(t, "pad"),
		NumSplits: rapid.IntRange(0, 20).Draw(t, "splits"),
		Invariant: rapid.Bool().Draw(t, "invariant"),
	}
	for range rapid.IntRange(0, 4).Draw(t, "sequences") {
		c.Lens = append(c.Lens, rapid.IntRange(0, 300).Draw(t, "length"))
		c.Queries = append(c.Queries, rapid.IntRange(0, 20).Draw(t, "queries"))
	}
	c.Interleaved = c.KType == c.VType && rapid.Bool().Draw(t, "interleaved")
	drawRules(t, &c)
	return c
}

func drawRules(t *rapid.T, c *Case) {
	o := &c.Options
	o.Causal = rapid.Bool().Draw(t, "causal")
	if rapid.Bool().Draw(t, "windowed") {
		o.Window = rapid.IntRange(1, 310).Draw(t, "window")
	}
	o.Softcap = rapid.SampledFrom([]float64{0, 0, 0.5, 30}).Draw(t, "softcap")
	if rapid.Bool().Draw(t, "own scale") {
		o.Scale = rapid.Float64Range(-0.5, 0.5).Draw(t, "scale")
	}
	if rapid.Bool().Draw(t, "slopes") {
		o.Slopes = rapid.SliceOfN(rapid.Float32Range(-0.5, 0.5), c.Shape.NumHeads, c.Shape.NumHeads).Draw(t, "slope")
	}
	if rapid.Bool().Draw(t, "sinks") {
		o.Sinks = rapid.SliceOfN(rapid.Float32Range(-5, 5), c.Shape.NumHeads, c.Shape.NumHeads).Draw(t, "sink")
	}
	if len(c.Lens) > 0 && rapid.Bool().Draw(t, "masked") {
		drawMask(t, c)
	}
}

// drawMask gives all sequences the first one's query count, which a mask wants.
func drawMask(t *rapid.T, c *Case) {
	n, shortest, longest := c.Queries[0], c.Lens[0], c.Lens[0]
	for i, length := range c.Lens {
		c.Queries[i] = n
		shortest, longest = min(shortest, length), max(longest, length)
	}
	m := &attn.Mask{Seqs: 1, Queries: n, Keys: longest, Newest: rapid.Bool().Draw(t, "newest")}
	if m.Newest {
		m.Keys = rapid.IntRange(0, shortest).Draw(t, "mask keys")
	}
	if rapid.Bool().Draw(t, "mask a sequence") {
		m.Seqs = len(c.Lens)
	}
	m.Visible = randomMask(rapid.Uint64().Draw(t, "mask seed"), m.Seqs*m.Queries*m.Keys, rapid.IntRange(0, 8).Draw(t, "visible eighths"))
	c.Options.Mask = m
}

// randomMask shows about eighths/8 of n keys.
func randomMask(seed uint64, n, eighths int) []uint8 {
	visible := make([]uint8, n)
	for i := range visible {
		if int(mix(seed+uint64(i)*0x9e3779b97f4a7c15)&7) < eighths {
			visible[i] = 1
		}
	}
	return visible
}
