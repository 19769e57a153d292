package backend_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/kv"
)

// plain is a backend of the caller's: it takes no notice of the plan's items, and computes
// each sequence's softmax directly.
type plain struct{}

func (plain) Info() backend.Info { return backend.Info{Name: "plain", Width: 1} }

func (plain) Close() error { return nil }

func (plain) Decode(ctx context.Context, l *backend.Launch) error {
	if l.States != nil {
		return errors.ErrUnsupported
	}
	row, first := l.Shape.NumHeads*l.Shape.KeyDim, 0
	for i, seq := range l.Plan.Config.Seqs {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		q := l.Q[first*row : (first+seq.NumQueries)*row]
		ref, err := attn.Direct(l.Shape, l.Options, i, q, l.KV.Sequence(i))
		if err != nil {
			return err
		}
		for j, x := range ref.Out {
			l.Out[first*l.Shape.NumHeads*l.Shape.ValueDim+j] = float32(x)
		}
		if l.LSE != nil {
			for j, x := range ref.LSE {
				l.LSE[first*l.Shape.NumHeads+j] = float32(x)
			}
		}
		first += seq.NumQueries
	}
	return nil
}

// An engine checks, plans and keeps caches for any backend, and two of them answer alike.
func ExampleBackend() {
	shape := attn.Shape{NumHeads: 2, NumKVHeads: 1, KeyDim: 2, ValueDim: 2}
	for _, b := range []backend.Backend{plain{}, nil} { // nil: the CPU's
		eng, err := flashdec.Open(flashdec.Options{Backend: b})
		if err != nil {
			log.Fatal(err)
		}
		defer eng.Close()
		cache, err := eng.NewCache(kv.Config{NumKVHeads: 1, KeyDim: 2, ValueDim: 2, PageSize: 2, NumPages: 2})
		if err != nil {
			log.Fatal(err)
		}
		defer cache.Close()
		seq := cache.NewSequence()
		if err := seq.Append([]float32{1, 0, 0, 1, 1, 1}, []float32{1, 2, 3, 4, 5, 6}); err != nil {
			log.Fatal(err)
		}
		view, err := cache.View(seq)
		if err != nil {
			log.Fatal(err)
		}
		step, err := eng.Plan(flashdec.Batch{Shape: shape, Lens: []int{seq.Len()}})
		if err != nil {
			log.Fatal(err)
		}
		out := step.NewOutput()
		if err := eng.Decode(context.Background(), step, []float32{0, 0, 2, -2}, view, out); err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%-5s %.3f\n", eng.Info().Name, out.Out)
	}
	// Output:
	// plain [3.000 4.000 1.838 2.838]
	// cpu   [3.000 4.000 1.838 2.838]
}
