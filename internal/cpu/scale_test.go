package cpu_test

import (
	"context"
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/internal/cpu"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/plan"
)

// quantised is a step over a cache of int8 keys and int4 values with scales of
// tokens, under a mask.
func quantised(t *testing.T) *backend.Launch {
	t.Helper()
	const n, dim = 300, 33
	shape := attn.Shape{NumHeads: 6, NumKVHeads: 2, KeyDim: dim, ValueDim: dim}
	cache, err := kv.New(kv.Config{
		NumKVHeads: 2, KeyDim: dim, ValueDim: dim, PageSize: 16, NumPages: 20, KeyType: kv.I8, ValueType: kv.I4,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cache.Close() })
	seq := cache.NewSequence()
	x := make([]float32, n*2*dim)
	for i := range x {
		x[i] = float32(i%17) - 8
	}
	if err := seq.Append(x, x); err != nil {
		t.Fatal(err)
	}
	view, err := cache.View(seq)
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.New(plan.Config{NumKVHeads: 2, GroupSize: 3, Width: 4, NumSplits: 3, Seqs: []plan.Seq{{Len: n, NumQueries: 2}}})
	if err != nil {
		t.Fatal(err)
	}
	mask := attn.Mask{Seqs: 1, Queries: 2, Keys: n, Visible: make([]uint8, 2*n)}
	for i := range mask.Visible {
		mask.Visible[i] = uint8(i % 2)
	}
	l := &backend.Launch{
		Shape: shape, Options: &attn.Options{Mask: &mask}, Plan: p, KV: view,
		Q: x[:2*6*dim], Out: make([]float32, 2*6*dim),
	}
	if err := l.Validate(); err != nil {
		t.Fatal(err)
	}
	return l
}

func TestQuantisedDecodeAllocatesNothing(t *testing.T) {
	l := quantised(t)
	for _, threads := range []int{1, 4} {
		b := cpu.NewEager(cpu.Options{Threads: threads})
		decode := func() {
			if err := b.Decode(context.Background(), l); err != nil {
				t.Fatal(err)
			}
		}
		for range 10 {
			decode()
		}
		if n := testing.AllocsPerRun(5, decode); n != 0 {
			t.Errorf("on %d threads: %v allocations a decode, want 0", threads, n)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}
