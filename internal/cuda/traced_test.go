package cuda

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/internal/cuda/build"
	"github.com/flashdec/flashdec/kv"
)

// TestTracedStepsAreTheSame: the traced build computes the plain one's bits, and its
// trace is whole, on every path that it has.
func TestTracedStepsAreTheSame(t *testing.T) {
	b := open(t)
	rng := rand.New(rand.NewPCG(7, 8))
	for _, dtype := range []kv.DType{kv.F16, kv.BF16, kv.F32, kv.F8E4M3, kv.I8} {
		for _, dim := range []int{64, 128, 256} {
			for _, splits := range []int{0, 1, 50} {
				for _, group := range []int{4, 16} {
					if dtype.Quantised() && (dim != 128 || group > 8) {
						continue // not in the traced build
					}
					p := problem{
						shape: attn.Shape{NumKVHeads: 2, NumHeads: 2 * group, KeyDim: dim, ValueDim: dim}, lens: []int{2000, 700}, queries: []int{1, 1},
						pageSize: []int{16, 2048}[rng.IntN(2)], layout: kv.HND, dtype: dtype, splits: splits,
					}
					if dtype.Quantised() {
						p.kinds = [2]kv.ScaleKind{kv.TokenScale, kv.TokenScale}
					}
					t.Run(fmt.Sprint(p), func(t *testing.T) {
						l := p.launch(t, rng, b.Info().Width)
						if err := b.Decode(context.Background(), l); err != nil {
							t.Fatal(err)
						}
						out, lse := slices.Clone(l.Out), slices.Clone(l.LSE)
						l.Trace = &backend.Trace{}
						if err := b.Decode(context.Background(), l); err != nil {
							t.Fatal(err)
						}
						if !slices.Equal(out, l.Out) || !slices.Equal(lse, l.LSE) {
							t.Error("a traced decode has other bits than a plain one")
						}
						if err := l.Trace.Check(l.Plan); err != nil {
							t.Error(err)
						}
						if l.Trace.Processors() != b.multiprocessors || l.Trace.End == 0 {
							t.Errorf("%d processors, done after %d ns, want %d and some time", l.Trace.Processors(), l.Trace.End, b.multiprocessors)
						}
					})
				}
			}
		}
	}
}

// TestTracedPTX: GPUs that no cubin of the traced build fits compile its PTX.
func TestTracedPTX(t *testing.T) {
	b := open(t)
	ptx := build.Traced.Targets[len(build.Traced.Targets)-1]
	image, err := build.Traced.Image(archives, ptx)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Do(func() (err error) {
		b.tracing, err = b.ctx.LoadModule(image)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for _, dtype := range []kv.DType{kv.BF16, kv.F32} {
		p := problem{
			shape: attn.Shape{NumKVHeads: 2, NumHeads: 8, KeyDim: 128, ValueDim: 128}, lens: []int{900}, queries: []int{1},
			pageSize: 16, layout: kv.NHD, dtype: dtype, splits: 9,
		}
		l := p.launch(t, rand.New(rand.NewPCG(9, 9)), b.Info().Width)
		l.Trace = &backend.Trace{}
		if err := b.Decode(context.Background(), l); err != nil {
			t.Fatal(err)
		}
		compare(t, l, tolerances[dtype])
		if err := l.Trace.Check(l.Plan); err != nil {
			t.Error(err)
		}
	}
}
