package cuda

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/kv"
)

// compare holds a launch's results against the direct softmax. NaN and infinity
// must stand where they stand there.
func compare(t *testing.T, l *backend.Launch, tolerance float64) {
	t.Helper()
	row, q := 0, 0
	worst := 0.0
	for i := range l.KV.Seqs {
		n := l.Plan.Config.Seqs[i].NumQueries
		size := n * l.Shape.NumHeads * l.Shape.KeyDim
		ref, err := attn.Direct(l.Shape, l.Options, i, l.Q[q:q+size], l.KV.Sequence(i))
		if err != nil {
			t.Fatal(err)
		}
		q += size
		for r := range ref.LSE {
			got, want := float64(l.LSE[row]), ref.LSE[r]
			if !same(got, want, 2e-5+2e-6*math.Abs(want)) {
				t.Fatalf("sequence %d row %d: LSE %v, want %v", i, r, got, want)
			}
			for d := range l.Shape.ValueDim {
				got, want := float64(l.Out[row*l.Shape.ValueDim+d]), ref.Out[r*l.Shape.ValueDim+d]
				if !same(got, want, tolerance) {
					t.Fatalf("sequence %d row %d dim %d: %v, want %v", i, r, d, got, want)
				}
				worst = max(worst, math.Abs(got-want))
			}
			row++
		}
	}
	t.Logf("largest error %.2g", worst)
}

func same(got, want, tolerance float64) bool {
	if math.IsNaN(want) || math.IsNaN(got) {
		return math.IsNaN(want) && math.IsNaN(got)
	}
	return got == want || math.Abs(got-want) <= tolerance
}

// tolerances of outputs of values near 1, above what the kernels' arithmetic
// gives: high and low parts keep 16 bits of q and of the weights in bf16, 22 in
// f16. Biased scores reach 100, where float32 keeps 4e-6.
var tolerances = map[kv.DType]float64{
	kv.F32: 2e-5, kv.F16: 2e-5, kv.BF16: 1e-4, kv.F8E4M3: 2e-5, kv.F8E5M2: 2e-5, kv.I8: 2e-5, kv.I4: 2e-5,
}

func TestRandomStepsEqualDirect(t *testing.T) {
	b := open(t)
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 1))
		p := randomProblem(rng)
		t.Run(fmt.Sprintf("%d/%v", seed, p), func(t *testing.T) {
			l := p.launch(t, rng, b.Info().Width)
			if err := l.Validate(); err != nil {
				t.Fatal(err)
			}
			if err := b.Decode(context.Background(), l); err != nil {
				t.Fatal(err)
			}
			compare(t, l, tolerances[p.dtype])
		})
	}
}

// TestPagesOfLongSplits: a warp walks over more pages than its lanes have at once, of
// every relation between pages and tiles.
func TestPagesOfLongSplits(t *testing.T) {
	b := open(t)
	for _, dtype := range []kv.DType{kv.BF16, kv.I8, kv.F32} {
		for _, size := range []int{1, 8, 16, 32, 48, 128} {
			p := problem{shape: heads(4, 1, 64), dtype: dtype, lens: []int{7001}, queries: []int{1}, pageSize: size, splits: 1}
			if dtype == kv.I8 {
				p.kinds = [2]kv.ScaleKind{kv.TokenScale, kv.TokenScale}
			}
			t.Run(fmt.Sprint(dtype, " ", size), func(t *testing.T) {
				l := p.launch(t, rand.New(rand.NewPCG(3, 15)), b.Info().Width)
				if err := b.Decode(context.Background(), l); err != nil {
					t.Fatal(err)
				}
				compare(t, l, tolerances[dtype])
			})
		}
	}
}

// TestNaNStaysInItsRow: a NaN value under a mask reaches the rows that see it,
// and no other; infinite keys and queries follow the direct form.
func TestNaNStaysInItsRow(t *testing.T) {
	b := open(t)
	for _, dtype := range []kv.DType{kv.BF16, kv.F16, kv.F32} {
		p := problem{
			shape: attn.Shape{NumHeads: 8, NumKVHeads: 2, KeyDim: 64, ValueDim: 64}, dtype: dtype,
			lens: []int{300, 77}, queries: []int{3, 3}, pageSize: 16, splits: 3, opt: attn.Options{Causal: true},
		}
		rng := rand.New(rand.NewPCG(7, 7))
		l := p.launch(t, rng, 264)
		newest := l.KV.Seqs[0].Pages[299/16]
		nan := float32(math.NaN())
		store(&l.KV.V, int(newest)*l.KV.V.PageStride+299%16*l.KV.V.SlotStride+5, nan)
		store(&l.KV.K, int(l.KV.Seqs[1].Pages[4])*l.KV.K.PageStride+l.KV.K.HeadStride+12*l.KV.K.SlotStride, nan)
		l.Q[64] = float32(math.Inf(1))
		if err := b.Decode(context.Background(), l); err != nil {
			t.Fatal(err)
		}
		compare(t, l, tolerances[dtype])
	}
}

// TestStatesMergeToOutputs: states come without the sink, natural, and give the
// outputs when merged with it.
func TestStatesMergeToOutputs(t *testing.T) {
	b := open(t)
	for _, dim := range []int{64, 33} {
		rng := rand.New(rand.NewPCG(8, 8))
		p := problem{
			shape: attn.Shape{NumHeads: 8, NumKVHeads: 2, KeyDim: dim, ValueDim: dim}, dtype: kv.F16,
			lens: []int{300, 0, 77}, queries: []int{1, 1, 2}, pageSize: 16, splits: 3,
		}
		p.opt.Sinks = perHead(rng, 8, 1)
		l := p.launch(t, rng, 264)
		states := attn.MakeStates(len(l.LSE), dim)
		l.States = &states
		if err := b.Decode(context.Background(), l); err != nil {
			t.Fatal(err)
		}
		for i := range l.LSE {
			s := attn.Empty[float32](dim)
			s.O = l.Out[i*dim : (i+1)*dim]
			attn.Merge(&s, states.Row(i), attn.SinkState[float32](p.opt.Sinks[i%8]))
			l.LSE[i] = float32(s.LSE())
		}
		compare(t, l, tolerances[p.dtype])
	}
}

// TestSameBitsEveryRun covers the counters' reset, the order of the merge and
// both ways of merging.
func TestSameBitsEveryRun(t *testing.T) {
	b := open(t)
	rng := rand.New(rand.NewPCG(9, 9))
	for _, splits := range []int{1, 2, 16, 40} {
		p := problem{
			shape: attn.Shape{NumHeads: 32, NumKVHeads: 8, KeyDim: 128, ValueDim: 128}, dtype: kv.BF16,
			lens: []int{4096, 4096}, queries: []int{1, 1}, pageSize: 16, splits: splits,
		}
		l := p.launch(t, rng, 264)
		var first []float32
		for range 20 {
			if err := b.Decode(context.Background(), l); err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = slices.Clone(l.Out)
				compare(t, l, tolerances[p.dtype])
			}
			if !slices.Equal(first, l.Out) {
				t.Fatal("another run, other bits")
			}
		}
	}
}
