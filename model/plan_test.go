package model_test

import (
	"context"
	"testing"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/internal/cpu"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/model"
)

// told is the CPU's backend, one that has likings of its own for elements of 16 bits and for
// others, and keeps which of them its last plan was told.
type told struct {
	backend.Backend
	keys *int
}

const toldPlain, toldConverted = 1 << 20, 1 << 10

func (b told) Info() backend.Info {
	info := b.Backend.Info()
	info.SaturatingElements, info.SaturatingConverted = toldPlain, toldConverted
	return info
}

func (b told) Decode(ctx context.Context, l *backend.Launch) error {
	*b.keys = l.Plan.Config.SaturatingKeys * (l.Shape.KeyDim + l.Shape.ValueDim)
	return b.Backend.Decode(ctx, l)
}

// TestPlansKnowTheCachesType: a backend's likings for a type reach the plans of a model whose
// caches have it.
func TestPlansKnowTheCachesType(t *testing.T) {
	keys := 0
	eng, err := flashdec.Open(flashdec.Options{Backend: told{cpu.New(cpu.Options{Threads: 1}), &keys}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	m := openModel(t, smallest)
	for dtype, want := range map[kv.DType]int{kv.F16: toldPlain, kv.BF16: toldPlain, kv.F32: toldConverted, kv.I8: toldConverted, kv.F8E4M3: toldConverted} {
		r, err := model.NewRunner(m, model.Options{Engine: eng, Threads: 1, KeyType: dtype, ValueType: dtype})
		if err != nil {
			t.Fatal(err)
		}
		keys = 0
		if err := r.NewSequence().Feed(context.Background(), []int{1, 2, 3}, nil, nil); err != nil {
			t.Fatal(err)
		}
		if keys != want {
			t.Errorf("%v: the plan was told of items of %d elements, want %d", dtype, keys, want)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
