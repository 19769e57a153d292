package cpu

import (
	"context"
	"testing"
	"time"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/plan"
)

// TestStepsThatFollowCallHelpersForLess: helpers of a step that has just ended are
// awake, those of an older one, or of none, are not.
func TestStepsThatFollowCallHelpersForLess(t *testing.T) {
	for _, work := range []int{100, 1} {
		b := New(Options{Threads: 2, HelperWork: work})
		if got := b.perHelper(b.pool.now()); got != work {
			t.Errorf("first step: a helper is called for each %d multiply-adds, want %d", got, work)
		}
		decodeOne(t, b)
		ended := time.Duration(b.pool.left.Load())
		for after, want := range map[time.Duration]int{0: max(1, work/hotWork), lingering - 1: max(1, work/hotWork), lingering: work, time.Hour: work} {
			if got := b.perHelper(ended + after); got != want {
				t.Errorf("%v after a step: a helper is called for each %d multiply-adds, want %d", after, got, want)
			}
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

// decodeOne decodes a step of one key.
func decodeOne(t *testing.T, b *Backend) {
	t.Helper()
	p, err := plan.New(plan.Config{NumKVHeads: 1, GroupSize: 1, Width: 1, Seqs: []plan.Seq{{Len: 1, NumQueries: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	plane := kv.Plane{Dim: 8, Data: make([]byte, 32)}
	l := &backend.Launch{
		Shape: attn.Shape{NumHeads: 1, NumKVHeads: 1, KeyDim: 8, ValueDim: 8}, Options: &attn.Options{}, Plan: p,
		KV: kv.View{K: plane, V: plane, NumKVHeads: 1, PageSize: 1, NumPages: 1, Seqs: []kv.Table{{Pages: []kv.PageID{0}, Len: 1}}},
		Q:  make([]float32, 8), Out: make([]float32, 8),
	}
	if err := l.Validate(); err != nil {
		t.Fatal(err)
	}
	if err := b.Decode(context.Background(), l); err != nil {
		t.Fatal(err)
	}
}
