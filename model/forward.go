package model

import (
	"context"
	"time"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/kv"
)

// batch is the tokens of one Forward, all parts' one after the other, and what is computed of them.
// Buffers outlive it, for the next one.
type batch struct {
	runner *Runner
	cfg    *Config
	crew   *crew
	parts  []Part
	tokens int

	ids       []int           // [tokens]
	positions []int           // [tokens]
	lens      [numKinds][]int // keys of each sequence, the new ones counted, in layers of a kind
	queries   []int           // new tokens of each sequence
	before    [numKinds][]int // keys of each sequence before
	steps     [numKinds]*flashdec.Step
	seqs      []*kv.Sequence // of the layer under way

	cos, sin [numKinds][]float32 // [tokens, HeadDim/2]

	x       []float32 // [tokens, HiddenSize] the residual stream
	h       []float32 // [tokens, HiddenSize] normed x, and what is added to x
	q, o    []float32 // [tokens, NumHeads, HeadDim]
	k, v    []float32 // [tokens, NumKVHeads, HeadDim]
	gate    []float32 // [tokens, MLPSize]
	up      []float32 // [tokens, MLPSize]
	mixture mixture
	logits  []float32 // [some, VocabSize]
}

// begin lays out a batch.
func (b *batch) begin(r *Runner, parts []Part) {
	b.runner, b.cfg, b.crew, b.parts = r, &r.model.config, r.crew, parts
	b.ids, b.positions, b.queries = b.ids[:0], b.positions[:0], b.queries[:0]
	for k := range b.lens {
		b.lens[k], b.before[k], b.steps[k] = make([]int, len(parts)), make([]int, len(parts)), nil
	}
	for i, p := range parts {
		b.ids = append(b.ids, p.IDs...)
		b.queries = append(b.queries, len(p.IDs))
		for j := range p.IDs {
			b.positions = append(b.positions, p.Seq.n+j)
		}
		for l, k := range b.cfg.layers {
			n := p.Seq.layers[l].Len()
			b.before[k][i], b.lens[k][i] = n, n+len(p.IDs)
		}
	}
	b.tokens = len(b.ids)
	b.reserve()
}

func (b *batch) reserve() {
	c, n := b.cfg, b.tokens
	for _, f := range []struct {
		buffer *[]float32
		size   int
	}{
		{&b.x, c.HiddenSize},
		{&b.h, c.HiddenSize},
		{&b.q, c.NumHeads * c.HeadDim},
		{&b.o, c.NumHeads * c.HeadDim},
		{&b.k, c.NumKVHeads * c.HeadDim},
		{&b.v, c.NumKVHeads * c.HeadDim},
		{&b.gate, c.MLPSize},
		{&b.up, c.MLPSize},
		{&b.cos[full], c.HeadDim / 2},
		{&b.sin[full], c.HeadDim / 2},
		{&b.cos[sliding], c.HeadDim / 2},
		{&b.sin[sliding], c.HeadDim / 2},
	} {
		*f.buffer = resize(*f.buffer, n*f.size)
	}
}

// forward computes the batch. When it fails, some layers have the new keys and others have not.
func (b *batch) forward(ctx context.Context) error {
	b.embed()
	b.turnTables()
	if err := b.plan(); err != nil {
		return err
	}
	w := b.runner.model.weights
	for i := range w.layers {
		if err := b.attention(ctx, i, &w.layers[i]); err != nil {
			return err
		}
		b.mlp(&w.layers[i])
	}
	b.head(w)
	return nil
}

// embed looks up the tokens' rows.
func (b *batch) embed() {
	size, scale := b.cfg.HiddenSize, float32(b.cfg.EmbedScale)
	for i, id := range b.ids {
		row := b.x[i*size : (i+1)*size]
		b.runner.model.weights.embedding.row(row, id)
		if scale != 1 {
			for j := range row {
				row[j] *= scale
			}
		}
	}
}

// rowsAtOnce is how many tokens a task norms or turns.
const rowsAtOnce = 8

// each calls do for runs [lo, hi) of tokens, spread over the crew.
func (b *batch) each(do func(lo, hi int)) {
	b.crew.run((b.tokens+rowsAtOnce-1)/rowsAtOnce, func(_ *seat, task int) {
		do(task*rowsAtOnce, min((task+1)*rowsAtOnce, b.tokens))
	})
}

// norm is h = norm(x).
func (b *batch) norm(weight []float32) {
	b.each(func(lo, hi int) {
		size := len(weight)
		normRows(b.h[lo*size:hi*size], b.x[lo*size:hi*size], weight, b.cfg.NormEps)
	})
}

// addNormed is x += h, or with weights x += norm(h).
func (b *batch) addNormed(weight []float32) {
	b.each(func(lo, hi int) {
		size := b.cfg.HiddenSize
		h := b.h[lo*size : hi*size]
		if weight != nil {
			normRows(h, h, weight, b.cfg.NormEps)
		}
		add(b.x[lo*size:hi*size], h)
	})
}

// logitRows is how many tokens' logits are computed at a time.
const logitRows = 16

// head computes the logits that the parts want.
func (b *batch) head(w *weights) {
	size, vocab := b.cfg.HiddenSize, b.cfg.VocabSize
	var rows []int         // tokens
	var places [][]float32 // [VocabSize] where the logits go
	first := 0
	for _, p := range b.parts {
		n := len(p.IDs)
		wanted := len(p.Logits) / vocab
		for i := range wanted {
			rows, places = append(rows, first+n-wanted+i), append(places, p.Logits[i*vocab:(i+1)*vocab])
		}
		first += n
	}
	for len(rows) > 0 {
		n := min(logitRows, len(rows))
		for i, row := range rows[:n] {
			rmsNorm(b.h[i*size:(i+1)*size], b.x[row*size:(row+1)*size], w.norm, b.cfg.NormEps)
		}
		y := places[0]
		if n > 1 {
			b.logits = resize(b.logits, n*vocab)
			y = b.logits
		}
		b.crew.multiply(n, product{&w.head, b.h[:n*size], y})
		for i, place := range places[:n] {
			copy(place, y[i*vocab:(i+1)*vocab])
			if b.cfg.FinalSoftcap > 0 {
				softcap(place, b.cfg.FinalSoftcap)
			}
		}
		rows, places = rows[n:], places[n:]
	}
}

// commit counts the tokens in, and gives back pages that no window reaches any more.
func (b *batch) commit() error {
	for i, p := range b.parts {
		p.Seq.n += len(p.IDs)
		reach := b.lens[sliding][i] - (b.cfg.Window - 1)
		if reach <= 0 {
			continue
		}
		for l, k := range b.cfg.layers {
			if k != sliding {
				continue
			}
			if _, err := p.Seq.layers[l].Forget(reach); err != nil {
				return err
			}
		}
	}
	b.parts = nil
	return nil
}

// rollBack takes the new keys out of the layers that have them.
func (b *batch) rollBack() {
	for i, p := range b.parts {
		for l, k := range b.cfg.layers {
			_ = p.Seq.layers[l].Truncate(b.before[k][i]) // fails only on what is closed
		}
	}
	b.parts = nil
}

// timed adds the time since start to the attention's.
func (b *batch) timed(start time.Time) { b.runner.stats.Attention += time.Since(start).Seconds() }
