package cpu

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/plan"
)

// TestGuestsHelp: a goroutine that assists takes part in decodes, so that no helper need be started; it is
// called for less work; the bits are those of a decode without it; and it goes when it is told.
func TestGuestsHelp(t *testing.T) {
	l, want := manyItems(t), []float32(nil)
	for _, guest := range []bool{false, true} {
		b := New(Options{Threads: 2, HelperWork: guestWork})
		var leave atomic.Bool
		var gone sync.WaitGroup
		if guest {
			gone.Go(func() { b.Assist(leave.Load) })
			for b.pool.guests.Load() == 0 {
				time.Sleep(time.Millisecond)
			}
			if got := b.perHelper(b.pool.now()); got != 1 {
				t.Errorf("beside a guest a helper is called for each %d multiply-adds, want 1", got)
			}
		}
		helped := false
		for deadline := time.Now().Add(time.Minute); !helped && time.Now().Before(deadline); {
			clear(l.Out)
			if err := b.Decode(context.Background(), l); err != nil {
				t.Fatal(err)
			}
			helped = b.pool.idle[0].joined > 0
		}
		if !helped {
			t.Errorf("guest %v: nobody helped", guest)
		}
		if started := b.pool.started; started != map[bool]int{false: 1, true: 0}[guest] {
			t.Errorf("guest %v: %d helpers were started", guest, started)
		}
		if want == nil {
			want = slices.Clone(l.Out)
		} else if !slices.Equal(l.Out, want) {
			t.Error("with a guest other bits come out")
		}
		leave.Store(true)
		gone.Wait()
		if n := b.pool.guests.Load(); n != 0 {
			t.Errorf("%d guests are left", n)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

// manyItems is a launch of 8 items of 512 keys.
func manyItems(t *testing.T) *backend.Launch {
	t.Helper()
	const heads, keys, dim = 8, 512, 16
	p, err := plan.New(plan.Config{NumKVHeads: heads, GroupSize: 1, Width: 2, NumSplits: 1, Seqs: []plan.Seq{{Len: keys, NumQueries: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	numbers := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		return x
	}
	cache, err := kv.New(kv.Config{NumKVHeads: heads, KeyDim: dim, ValueDim: dim, PageSize: keys, NumPages: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cache.Close(); err != nil {
			t.Error(err)
		}
	})
	seq := cache.NewSequence()
	if err := seq.Append(numbers(heads*keys*dim), numbers(heads*keys*dim)); err != nil {
		t.Fatal(err)
	}
	view, err := cache.View(seq)
	if err != nil {
		t.Fatal(err)
	}
	l := &backend.Launch{
		Shape: attn.Shape{NumHeads: heads, NumKVHeads: heads, KeyDim: dim, ValueDim: dim}, Options: &attn.Options{Scale: 0.25}, Plan: p,
		KV: view, Q: numbers(heads * dim), Out: make([]float32, heads*dim),
	}
	if err := l.Validate(); err != nil {
		t.Fatal(err)
	}
	return l
}
