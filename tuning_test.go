package flashdec_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/internal/cpu"
	"github.com/flashdec/flashdec/kv"
)

// liking is a backend that says how many keys a split is worth on it.
type liking struct {
	backend.Backend
	keys int
}

func (b liking) Info() backend.Info {
	info := b.Backend.Info()
	info.MinKeysPerSplit = b.keys
	return info
}

// tuned is an engine of two threads with options on a backend that likes splits of
// 512 keys.
func tuned(t *testing.T, opts flashdec.Options) *flashdec.Engine {
	t.Helper()
	opts.Backend = liking{cpu.New(cpu.Options{Threads: 2}), 512}
	eng, err := flashdec.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	return eng
}

// decodeLong decodes 1024 keys, and says why the plan was as it was.
func decodeLong(t *testing.T, eng *flashdec.Engine, invariant bool) (out []float32, splits int, reason string) {
	t.Helper()
	const length = 1024
	rng := rand.New(rand.NewPCG(8, 9))
	random := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		return x
	}
	shape := attn.Shape{NumHeads: 2, NumKVHeads: 1, KeyDim: 8, ValueDim: 8}
	cache, err := eng.NewCache(kv.Config{NumKVHeads: 1, KeyDim: 8, ValueDim: 8, PageSize: 64, NumPages: length / 64})
	if err != nil {
		t.Fatal(err)
	}
	defer cache.Close()
	seq := cache.NewSequence()
	if err := seq.Append(random(8*length), random(8*length)); err != nil {
		t.Fatal(err)
	}
	step, err := eng.Plan(flashdec.Batch{Shape: shape, Lens: []int{length}, Invariant: invariant})
	if err != nil {
		t.Fatal(err)
	}
	got := step.NewOutput()
	if err := eng.Decode(context.Background(), step, random(16), view(t, cache, seq), got); err != nil {
		t.Fatal(err)
	}
	return slices.Concat(got.Out, got.LSE), step.Plan().MaxSplits(), step.Plan().Reason
}

// TestLeastKeysOfASplit: the caller's number goes before the backend's, and the
// plan says whose it followed.
func TestLeastKeysOfASplit(t *testing.T) {
	for _, tc := range []struct {
		opts   flashdec.Options
		splits int
		says   string
	}{
		{flashdec.Options{}, 2, "a split has at least 512 keys, the backend's"},
		{flashdec.Options{MinKeysPerSplit: 600, MinKeysSource: "tuned on 2026-11-30"}, 1, "uncut, since a split has at least 600 keys (tuned on 2026-11-30)"},
	} {
		_, splits, reason := decodeLong(t, tuned(t, tc.opts), false)
		if splits != tc.splits || !strings.Contains(reason, tc.says) {
			t.Errorf("%+v: %d splits, %q; want %d and %q", tc.opts, splits, reason, tc.splits, tc.says)
		}
	}
}

// TestTuningLeavesInvariantBits: what one machine has measured must not reach the
// borders of invariant mode, which are the same on all machines.
func TestTuningLeavesInvariantBits(t *testing.T) {
	want, splits, _ := decodeLong(t, tuned(t, flashdec.Options{}), true)
	if splits < 2 {
		t.Fatalf("%d splits, want several, for a test of their borders", splits)
	}
	for _, keys := range []int{32, 500, 4096} {
		got, _, reason := decodeLong(t, tuned(t, flashdec.Options{MinKeysPerSplit: keys, MinKeysSource: "tuned"}), true)
		if !slices.Equal(got, want) || strings.Contains(reason, "tuned") {
			t.Errorf("at least %d keys per split: other bits, or a reason that names it: %q", keys, reason)
		}
	}
}

func TestOpenRefusesTuning(t *testing.T) {
	b := cpu.New(cpu.Options{Threads: 1})
	defer b.Close()
	for _, tc := range []struct {
		opts flashdec.Options
		says string
	}{
		{flashdec.Options{MinKeysPerSplit: -1}, "-1 keys per split at least, want 32 or more"},
		{flashdec.Options{MinKeysPerSplit: 31}, "31 keys per split at least, want 32 or more"},
		{flashdec.Options{HelperWork: -1}, "-1 multiply-adds a helper, want at least 1"},
		{flashdec.Options{HelperWork: 5, Backend: b}, "5 multiply-adds a helper for a given backend, want 0"},
	} {
		if _, err := flashdec.Open(tc.opts); !errors.Is(err, attn.ErrOption) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%+v: %v, want attn.ErrOption with %q", tc.opts, err, tc.says)
		}
	}
}
