package cuda

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/plan"
)

// TestInvariantBesideLongMates: a sequence's bits do not depend on mates that merge
// in two steps, have more query rows, or fill more of the GPU than it does alone;
// neither where its splits are forced.
func TestInvariantBesideLongMates(t *testing.T) {
	b := open(t)
	for _, x := range []struct {
		shape         attn.Shape
		splits        int
		lens, queries []int
	}{
		{shape: heads(4, 1, 64), lens: []int{6000, 70000, 9}, queries: []int{1, 1, 1}},
		{shape: heads(4, 1, 64), lens: []int{6000, 20000}, queries: []int{2, 9}},
		{shape: heads(4, 1, 128), splits: 8, lens: append([]int{9000}, slices.Repeat([]int{40}, 63)...), queries: slices.Repeat([]int{1}, 64)},
	} {
		p := problem{shape: x.shape, dtype: kv.BF16, lens: x.lens, queries: x.queries, pageSize: 16, splits: x.splits, invariant: x.splits == 0}
		together := p.launch(t, rand.New(rand.NewPCG(4, 13)), b.Info().Width)
		alone := *together
		cfg := together.Plan.Config
		cfg.Seqs = cfg.Seqs[:1]
		var err error
		if alone.Plan, err = plan.New(cfg); err != nil {
			t.Fatal(err)
		}
		rows := x.queries[0] * x.shape.NumHeads
		alone.KV.Seqs, alone.Q = together.KV.Seqs[:1], together.Q[:rows*x.shape.KeyDim]
		alone.Out, alone.LSE = nan(rows*x.shape.ValueDim), nan(rows)
		if err := errors.Join(b.Decode(context.Background(), together), b.Decode(context.Background(), &alone)); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(alone.Out, together.Out[:len(alone.Out)]) || !slices.Equal(alone.LSE, together.LSE[:rows]) {
			t.Errorf("%v: other bits alone", p)
		}
		compare(t, &alone, tolerances[p.dtype])
	}
}

// TestPartsGiveTheSameBits: a step whose partial states are too many for its memory
// runs in parts that share it.
func TestPartsGiveTheSameBits(t *testing.T) {
	b := open(t)
	p := problem{
		shape: heads(32, 8, 128), dtype: kv.F16, pageSize: 16, splits: 40,
		queries: slices.Repeat([]int{1}, 32),
	}
	rng := rand.New(rand.NewPCG(2, 14))
	for range p.queries {
		p.lens = append(p.lens, rng.IntN(300))
	}
	l := p.launch(t, rng, b.Info().Width)
	whole := decodeIn(t, b, l, stepBytes)
	if parts := decodeIn(t, b, l, 0); !slices.Equal(whole, parts) {
		t.Error("other bits in parts")
	}
	compare(t, l, tolerances[p.dtype])
}

// decodeIn decodes with so much memory a step and returns the results.
func decodeIn(t *testing.T, b *Backend, l *backend.Launch, bytes int) []float32 {
	t.Helper()
	b.stepBytes = bytes
	defer func() { b.stepBytes = stepBytes }()
	m := placeMerges(l.Plan, rowsPerSet, mostPartials(bytes, 0, rowsPerSet*(l.Shape.ValueDim+2)))
	if (m.parts > 1) != (bytes == 0) {
		t.Fatalf("%d parts in %d bytes", m.parts, bytes)
	}
	l.Out, l.LSE = nan(len(l.Out)), nan(len(l.LSE))
	if err := b.Decode(context.Background(), l); err != nil {
		t.Fatal(err)
	}
	return slices.Concat(l.Out, l.LSE)
}
