package kv_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/flashdec/flashdec/kv"
)

// pair is a cache of pages of 4 slots, one number a row, and two sequences of it of
// 10 tokens.
func pair(t *testing.T) (cache *kv.Cache, first, second *kv.Sequence) {
	t.Helper()
	cache, err := kv.New(kv.Config{NumKVHeads: 1, KeyDim: 1, ValueDim: 1, PageSize: 4, NumPages: 8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cache.Close() }) // some tests do
	first, second = cache.NewSequence(), cache.NewSequence()
	if err := errors.Join(first.Append(make([]float32, 10), make([]float32, 10)), second.Append(make([]float32, 10), make([]float32, 10))); err != nil {
		t.Fatal(err)
	}
	return cache, first, second
}

func viewOf(t *testing.T, cache *kv.Cache, seqs ...*kv.Sequence) kv.View {
	t.Helper()
	view, err := cache.View(seqs...)
	if err != nil {
		t.Fatal(err)
	}
	return view
}

// TestStaleViewIsRefused: whatever changes one of a view's sequences, or closes the
// cache, the view says so; a view made after the change is good.
func TestStaleViewIsRefused(t *testing.T) {
	one := []float32{1}
	for name, x := range map[string]struct {
		change func(*kv.Cache, *kv.Sequence) error
		says   string
		freed  bool
	}{
		"append":   {func(_ *kv.Cache, s *kv.Sequence) error { return s.Append(one, one) }, "changes: 1, the last by Append", false},
		"truncate": {func(_ *kv.Cache, s *kv.Sequence) error { return s.Truncate(9) }, "changes: 1, the last by Truncate", false},
		"forget":   {func(_ *kv.Cache, s *kv.Sequence) error { _, err := s.Forget(4); return err }, "changes: 1, the last by Forget", false},
		"free":     {func(_ *kv.Cache, s *kv.Sequence) error { return s.Free() }, "changes: 1, the last by Free", true},
		"close":    {func(c *kv.Cache, _ *kv.Sequence) error { return c.Close() }, "the cache of its sequence 0 has been closed", true},
		"there and back": {func(_ *kv.Cache, s *kv.Sequence) error {
			return errors.Join(s.Truncate(9), s.Append(one, one))
		}, "changes: 2, the last by Append", false},
		"a function": {func(_ *kv.Cache, s *kv.Sequence) error {
			return s.AppendFunc(1, func(kv.PageID, int, int, int) error { return nil })
		}, "changes: 1, the last by Append", false},
	} {
		cache, first, second := pair(t)
		view, other := viewOf(t, cache, first, second), viewOf(t, cache, first)
		if err := view.Validate(); err != nil {
			t.Fatal(err)
		}
		if err := x.change(cache, second); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		err := view.Validate()
		if !errors.Is(err, kv.ErrStale) || !strings.Contains(err.Error(), x.says) || errors.Is(err, kv.ErrFreed) != x.freed {
			t.Errorf("%s: %v, want ErrStale with %q; ErrFreed: %t", name, err, x.says, x.freed)
		}
		if name == "close" {
			continue
		}
		if !strings.Contains(err.Error(), "its sequence 1 ") {
			t.Errorf("%s: %v does not name sequence 1", name, err)
		}
		if err := other.Validate(); err != nil {
			t.Errorf("%s: the other sequence's view: %v", name, err)
		}
		if x.freed {
			continue
		}
		if view = viewOf(t, cache, first, second); view.Validate() != nil {
			t.Errorf("%s: a view made afterwards: %v", name, view.Validate())
		}
	}
}

// TestForkOutlivesItsParent: the fork's view is good, and reads the same, whatever
// happens to the parent, and the other way about.
func TestForkOutlivesItsParent(t *testing.T) {
	for _, turned := range []bool{false, true} {
		cache, parent, _ := pair(t)
		fork, err := parent.Fork()
		if err != nil {
			t.Fatal(err)
		}
		if turned {
			parent, fork = fork, parent
		}
		parents, forks := viewOf(t, cache, parent), viewOf(t, cache, fork)
		nine := []float32{9, 9, 9}
		for i, change := range []func() error{
			func() error { return parent.Append(nine, nine) },
			func() error { return parent.Truncate(2) },
			func() error { return parent.Append(nine, nine) },
			func() error { _, err := parent.Forget(4); return err },
			parent.Free,
		} {
			if err := change(); err != nil {
				t.Fatal(err)
			}
			if err := forks.Validate(); err != nil {
				t.Errorf("turned %t, change %d: the view of the one left alone: %v", turned, i, err)
			}
			if err := parents.Validate(); !errors.Is(err, kv.ErrStale) {
				t.Errorf("turned %t, change %d: the view of the changed one: %v", turned, i, err)
			}
		}
		row, rows := make([]float32, 1), forks.Sequence(0)
		for pos := range rows.Len() {
			if rows.Key(row, 0, pos); row[0] != 0 {
				t.Errorf("turned %t: key %d is now %v", turned, pos, row[0])
			}
		}
	}
}

// TestWhatChangesNothingLeavesViews: calls that fail, and calls for nothing.
func TestWhatChangesNothingLeavesViews(t *testing.T) {
	cache, seq, other := pair(t)
	view := viewOf(t, cache, seq)
	many := make([]float32, 100)
	for name, err := range map[string]error{
		"too many":       seq.Append(many, many),
		"shape":          seq.Append(many, many[:1]),
		"writes nothing": seq.AppendFunc(1, func(kv.PageID, int, int, int) error { return errors.ErrUnsupported }),
		"longer":         seq.Truncate(11),
		"beyond":         func() error { _, err := seq.Forget(11); return err }(),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := seq.Forget(3); err != nil { // less than a page
		t.Fatal(err)
	}
	if _, err := seq.Fork(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(seq.Append(nil, nil), seq.Truncate(10), other.Free()); err != nil {
		t.Fatal(err)
	}
	if err := view.Validate(); err != nil {
		t.Error(err)
	}
}

// TestViewsOfTheCallersOwn: tables written by hand, and those of plain tensors, have
// no sequence that could change.
func TestViewsOfTheCallersOwn(t *testing.T) {
	cache, seq, _ := pair(t)
	byHand := viewOf(t, cache, seq)
	byHand.Seqs = []kv.Table{{Pages: byHand.Seqs[0].Pages, Len: byHand.Seqs[0].Len}}
	plain := kv.Tensor{Type: kv.F32, Data: make([]byte, 12)}
	contiguous, err := kv.Contiguous(plain, plain, 1, 1, 3, 1, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := seq.Truncate(1); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(byHand.Validate(), contiguous.Validate()); err != nil {
		t.Error(err)
	}
}

// TestStaleBeforeShape: a shorter table than Len needs, of a sequence that has
// changed, is stale first: that is what to mend.
func TestStaleBeforeShape(t *testing.T) {
	cache, seq, _ := pair(t)
	view := viewOf(t, cache, seq)
	view.Seqs[0].Len = 100
	if err := view.Validate(); !errors.Is(err, kv.ErrCapacity) {
		t.Errorf("%v, want ErrCapacity", err)
	}
	if err := seq.Free(); err != nil {
		t.Fatal(err)
	}
	if err := view.Validate(); !errors.Is(err, kv.ErrStale) {
		t.Errorf("%v, want ErrStale", err)
	}
}

// TestValidateWhileItChanges: the check itself is no data race, and a view found
// stale stays so.
func TestValidateWhileItChanges(t *testing.T) {
	cache, seq, _ := pair(t)
	view := viewOf(t, cache, seq)
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			stale := false
			for range 1000 {
				err := view.Validate()
				if err != nil && !errors.Is(err, kv.ErrStale) || stale && err == nil {
					t.Errorf("stale before: %t, now %v", stale, err)
				}
				stale = err != nil
			}
		})
	}
	one := []float32{1}
	for range 200 {
		if err := errors.Join(seq.Append(one, one), seq.Truncate(10)); err != nil {
			t.Error(err)
		}
	}
	if err := cache.Close(); err != nil {
		t.Error(err)
	}
	readers.Wait()
}

// TestValidateAllocatesNothing of a view that is good.
func TestValidateAllocatesNothing(t *testing.T) {
	cache, first, second := pair(t)
	view := viewOf(t, cache, first, second)
	if n := testing.AllocsPerRun(100, func() {
		if err := view.Validate(); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

// BenchmarkValidate is what the check of a view costs, of sequences of some pages.
func BenchmarkValidate(b *testing.B) {
	const seqs = 64
	cache, err := kv.New(kv.Config{NumKVHeads: 1, KeyDim: 1, ValueDim: 1, PageSize: 16, NumPages: 4 * seqs})
	if err != nil {
		b.Fatal(err)
	}
	defer cache.Close()
	all := make([]*kv.Sequence, seqs)
	for i := range all {
		all[i] = cache.NewSequence()
		if err := all[i].Append(make([]float32, 64), make([]float32, 64)); err != nil {
			b.Fatal(err)
		}
	}
	made, err := cache.View(all...)
	if err != nil {
		b.Fatal(err)
	}
	byHand := made
	byHand.Seqs = make([]kv.Table, seqs)
	for i, table := range made.Seqs {
		byHand.Seqs[i] = kv.Table{Pages: table.Pages, Len: table.Len}
	}
	for name, view := range map[string]kv.View{"cache": made, "hand": byHand} {
		b.Run(fmt.Sprintf("tables=%s/seqs=%d", name, seqs), func(b *testing.B) {
			for b.Loop() {
				if err := view.Validate(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
