package flashdec_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/kv"
)

var tiny = attn.Shape{NumHeads: 2, NumKVHeads: 1, KeyDim: 2, ValueDim: 2}

// opened is an engine with a sequence of three tokens, and a step planned for it.
func opened(t *testing.T) (eng *flashdec.Engine, cache *kv.Cache, seq *kv.Sequence, step *flashdec.Step) {
	t.Helper()
	eng, err := flashdec.Open(flashdec.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	cache, err = eng.NewCache(kv.Config{NumKVHeads: 1, KeyDim: 2, ValueDim: 2, PageSize: 2, NumPages: 8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cache.Close() })
	seq = cache.NewSequence()
	if err := seq.Append(make([]float32, 6), make([]float32, 6)); err != nil {
		t.Fatal(err)
	}
	if step, err = eng.Plan(flashdec.Batch{Shape: tiny, Lens: []int{3}}); err != nil {
		t.Fatal(err)
	}
	return eng, cache, seq, step
}

func view(t *testing.T, cache *kv.Cache, seqs ...*kv.Sequence) kv.View {
	t.Helper()
	v, err := cache.View(seqs...)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestCallersMistakes: wrong arguments are errors that say got and want, never a
// panic.
func TestCallersMistakes(t *testing.T) {
	eng, cache, seq, step := opened(t)
	ctx, q, good := context.Background(), make([]float32, 4), view(t, cache, seq)
	states := attn.MakeStates(1, 2)
	_, nilErr := cache.View(nil)
	_, planErr := eng.Plan(flashdec.Batch{Shape: tiny, Lens: []int{3}, NumQueries: []int{1, 1}})
	_, negativeErr := eng.Plan(flashdec.Batch{Shape: tiny, Lens: []int{-1}})
	_, shapeErr := eng.Plan(flashdec.Batch{Lens: []int{3}})
	_, threadsErr := flashdec.Open(flashdec.Options{Threads: -1})
	for _, tc := range []struct {
		err  error
		kind error
		says string
	}{
		{eng.Decode(ctx, nil, q, good, step.NewOutput()), attn.ErrShape, "step is <nil>"},
		{eng.Decode(ctx, step, q, good, nil), attn.ErrShape, "output <nil>"},
		{eng.DecodeStates(ctx, step, q, good, nil), attn.ErrShape, "states <nil>"},
		{eng.DecodeStates(ctx, step, q, good, &states), attn.ErrShape, "2"},
		{eng.Decode(ctx, step, q[:3], good, step.NewOutput()), attn.ErrShape, "3"},
		{eng.Decode(ctx, step, q, good, &flashdec.Output{}), attn.ErrShape, "0"},
		{eng.Decode(ctx, step, q, kv.View{}, step.NewOutput()), attn.ErrShape, "0"},
		{states.Merge(nil), attn.ErrShape, "states 0 are nil"},
		{nilErr, attn.ErrShape, "sequence 0 of the view"},
		{planErr, attn.ErrShape, "query counts for 2 sequences, want 1"},
		{negativeErr, attn.ErrShape, "-1"},
		{shapeErr, attn.ErrShape, "KV heads is 0"},
		{threadsErr, attn.ErrOption, "-1 threads"},
	} {
		if !errors.Is(tc.err, tc.kind) || !strings.Contains(tc.err.Error(), tc.says) {
			t.Errorf("got %v, want %v with %q", tc.err, tc.kind, tc.says)
		}
	}
}

// TestStaleStep is the fault of replaying a plan after the lengths have changed.
func TestStaleStep(t *testing.T) {
	eng, cache, seq, step := opened(t)
	if err := seq.Append(make([]float32, 2), make([]float32, 2)); err != nil {
		t.Fatal(err)
	}
	err := eng.Decode(context.Background(), step, make([]float32, 4), view(t, cache, seq), step.NewOutput())
	if !errors.Is(err, attn.ErrShape) || !strings.Contains(err.Error(), "3 keys in sequence 0, the cache 4") {
		t.Errorf("a step planned for 3 keys on a sequence of 4: %v", err)
	}
}

func TestClosedEngine(t *testing.T) {
	eng, cache, seq, step := opened(t)
	if err := eng.Close(); err != nil {
		t.Fatal(err)
	}
	if err := eng.Decode(context.Background(), step, make([]float32, 4), view(t, cache, seq), step.NewOutput()); !errors.Is(err, flashdec.ErrClosed) {
		t.Errorf("decode on a closed engine: %v, want ErrClosed", err)
	}
	if err := eng.Close(); !errors.Is(err, flashdec.ErrClosed) {
		t.Errorf("close twice: %v, want ErrClosed", err)
	}
}
