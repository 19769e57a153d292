package model

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/internal/filemap"
	"github.com/flashdec/flashdec/internal/network"
	"github.com/flashdec/flashdec/internal/simd"
	"github.com/flashdec/flashdec/kv"
)

// host is the CPU's steps: buffers that outlive a batch, for the next one. It implements [network.Steps].
type host struct {
	net     *network.Network
	engine  *flashdec.Engine
	options network.Options
	crew    *crew
	caches  []network.Cache // one a layer

	in        *network.Batch
	tokens    int
	steps     [numKinds]*flashdec.Step
	attending float64

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

var _ network.Steps = (*host)(nil)

// newHost makes the CPU's steps, and a cache a layer.
func newHost(n *network.Network, engine *flashdec.Engine, threads int, rowByRow bool, o network.Options) (*host, error) {
	b := &host{net: n, engine: engine, options: o, caches: make([]network.Cache, len(n.Layers))}
	for k := range numKinds {
		if !n.Has(k) {
			continue
		}
		caches, err := kv.NewTogether(n.NumLayers(k), o.Cache[k])
		if err != nil {
			return nil, errors.Join(err, b.closeCaches())
		}
		for i := range n.Layers {
			if n.Layers[i].Kind == k {
				b.caches[i], caches = network.Cache{Cache: caches[0], Kind: k}, caches[1:]
			}
		}
	}
	b.crew = newCrew(threads, engine.Assist)
	b.crew.rowByRow = rowByRow
	return b, nil
}

// Caches implements [network.Steps].
func (b *host) Caches() []network.Cache { return b.caches }

// Attending implements [network.Steps].
func (b *host) Attending() float64 { return b.attending }

// WeightBytes implements [network.Steps].
func (b *host) WeightBytes() int { return b.net.WeightBytes() }

// Close implements [network.Steps].
func (b *host) Close() error {
	b.crew.close()
	return b.closeCaches()
}

func (b *host) closeCaches() error {
	var err error
	for _, c := range b.caches {
		if c.Cache != nil { // else there was too little memory
			err = errors.Join(err, c.Close())
		}
	}
	return err
}

// Run implements [network.Steps]. A file of weights that was cut short is an error.
func (b *host) Run(_ context.Context, in *network.Batch, pass func() error) (err error) {
	defer filemap.Recover(&err, debug.SetPanicOnFault(true))
	b.in, b.tokens = in, len(in.IDs)
	b.crew.begin()
	defer func() {
		b.crew.end()
		b.in = nil
	}()
	b.reserve()
	b.turnTables()
	if err := b.plan(); err != nil {
		return err
	}
	if err := pass(); err != nil {
		return err
	}
	return b.crew.fault()
}

func (b *host) reserve() {
	n, dim := b.net, b.net.Shape.KeyDim
	for _, f := range []struct {
		buffer *[]float32
		size   int
	}{
		{&b.x, n.HiddenSize},
		{&b.h, n.HiddenSize},
		{&b.q, n.Shape.NumHeads * dim},
		{&b.o, n.Shape.NumHeads * dim},
		{&b.k, n.Shape.NumKVHeads * dim},
		{&b.v, n.Shape.NumKVHeads * dim},
		{&b.gate, n.MLPSize},
		{&b.up, n.MLPSize},
		{&b.cos[full], dim / 2},
		{&b.sin[full], dim / 2},
		{&b.cos[sliding], dim / 2},
		{&b.sin[sliding], dim / 2},
	} {
		*f.buffer = resize(*f.buffer, b.tokens*f.size)
	}
}

// Embed implements [network.Steps].
func (b *host) Embed() error {
	size, scale := b.net.HiddenSize, float32(b.net.EmbedScale)
	for i, id := range b.in.IDs {
		row := b.x[i*size : (i+1)*size]
		readRow(row, &b.net.Embedding, id)
		if scale != 1 {
			for j := range row {
				row[j] *= scale
			}
		}
	}
	return nil
}

// rowsAtOnce is how many tokens a task norms or turns.
const rowsAtOnce = 8

// each calls do for runs [lo, hi) of tokens, spread over the crew.
func (b *host) each(do func(lo, hi int)) {
	b.crew.run((b.tokens+rowsAtOnce-1)/rowsAtOnce, func(_ *seat, task int) {
		do(task*rowsAtOnce, min((task+1)*rowsAtOnce, b.tokens))
	})
}

// norm is h = norm(x).
func (b *host) norm(weight []float32) {
	b.each(func(lo, hi int) {
		size := len(weight)
		normRows(b.h[lo*size:hi*size], b.x[lo*size:hi*size], weight, b.net.NormEps)
	})
}

// addNormed is x += h, or with weights x += norm(h).
func (b *host) addNormed(weight []float32) {
	b.each(func(lo, hi int) {
		size := b.net.HiddenSize
		h := b.h[lo*size : hi*size]
		if weight != nil {
			normRows(h, h, weight, b.net.NormEps)
		}
		simd.Add(b.x[lo*size:hi*size], h)
	})
}

// logitRows is how many tokens' logits are computed at a time.
const logitRows = 16

// Head implements [network.Steps].
func (b *host) Head() error {
	size, vocab := b.net.HiddenSize, b.net.VocabSize
	rows, places := b.in.Rows, b.in.Logits
	for len(rows) > 0 {
		n := min(logitRows, len(rows))
		for i, row := range rows[:n] {
			rmsNorm(b.h[i*size:(i+1)*size], b.x[row*size:(row+1)*size], b.net.Norm, b.net.NormEps)
		}
		y := places[0]
		if n > 1 {
			b.logits = resize(b.logits, n*vocab)
			y = b.logits
		}
		b.crew.multiply(n, product{&b.net.Head, b.h[:n*size], y})
		for i, place := range places[:n] {
			copy(place, y[i*vocab:(i+1)*vocab])
			if b.net.FinalSoftcap > 0 {
				softcap(place, b.net.FinalSoftcap)
			}
		}
		rows, places = rows[n:], places[n:]
	}
	return nil
}

// timed adds the time since start to the attention's.
func (b *host) timed(start time.Time) { b.attending += time.Since(start).Seconds() }
