package kv_test

import (
	"errors"
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/kv"
)

func forget(t *testing.T, seq *kv.Sequence, n, want int) {
	t.Helper()
	if gone, err := seq.Forget(n); err != nil || gone != want {
		t.Fatalf("forgetting before %d: %d tokens went, %v; want %d", n, gone, err, want)
	}
}

// TestForgetDropsWholePages: a page that holds one token from position n on stays.
func TestForgetDropsWholePages(t *testing.T) {
	cache := open(t, small) // pages of 4
	seq := cache.NewSequence()
	appendStamps(t, small, seq, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	forget(t, seq, 3, 0)
	forget(t, seq, 7, 4)
	holds(t, cache, seq, 5, 6, 7, 8, 9)
	if used := cache.Stats().Used; used != 2 {
		t.Errorf("%d pages are used, want 2", used)
	}
	appendStamps(t, small, seq, 10, 11, 12, 13)
	holds(t, cache, seq, 5, 6, 7, 8, 9, 10, 11, 12, 13)
	forget(t, seq, 9, 8)
	holds(t, cache, seq, 13)
}

// TestForgetLeavesForks: a fork keeps what its sibling forgets.
func TestForgetLeavesForks(t *testing.T) {
	cache := open(t, small)
	seq := cache.NewSequence()
	appendStamps(t, small, seq, 1, 2, 3, 4, 5)
	fork, err := seq.Fork()
	if err != nil {
		t.Fatal(err)
	}
	forget(t, seq, 5, 4)
	holds(t, cache, fork, 1, 2, 3, 4, 5)
	appendStamps(t, small, seq, 6)
	appendStamps(t, small, fork, 7)
	holds(t, cache, seq, 5, 6)
	holds(t, cache, fork, 1, 2, 3, 4, 5, 7)
}

// TestForgettingNeverRunsOut: a window's worth of pages serves any length.
func TestForgettingNeverRunsOut(t *testing.T) {
	cfg := small
	cfg.NumPages = 2
	cache := open(t, cfg)
	seq := cache.NewSequence()
	const window = 5
	for i := range 1000 {
		appendStamps(t, cfg, seq, stamp(i))
		if n := seq.Len(); n >= window {
			if _, err := seq.Forget(n - window + 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	holds(t, cache, seq, stamp(996), stamp(997), stamp(998), stamp(999))
}

func TestForgetRefuses(t *testing.T) {
	cache := open(t, small)
	seq := cache.NewSequence()
	appendStamps(t, small, seq, 1, 2, 3, 4, 5)
	for _, n := range []int{-1, 6} {
		if _, err := seq.Forget(n); !errors.Is(err, attn.ErrShape) {
			t.Errorf("forgetting before %d of 5: %v, want %v", n, err, attn.ErrShape)
		}
	}
	holds(t, cache, seq, 1, 2, 3, 4, 5)
	if err := seq.Free(); err != nil {
		t.Fatal(err)
	}
	if _, err := seq.Forget(0); !errors.Is(err, kv.ErrFreed) {
		t.Errorf("forgetting of a freed sequence: %v, want %v", err, kv.ErrFreed)
	}
}
