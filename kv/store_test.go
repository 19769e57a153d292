package kv_test

import (
	"errors"
	"testing"

	"github.com/flashdec/flashdec/kv"
)

// deviceStore stands for a device's memory: it keeps the elements as float32
// numbers and fails when told to.
type deviceStore struct {
	k, v   kv.Plane
	rows   map[[2]int][2]float32 // by page and slot: the first element of key and value
	fail   error                 // of the calls after the next good ones
	good   int
	copies int
	closed bool
}

// call counts a call, and fails it if it is to fail.
func (s *deviceStore) call() error {
	if s.good--; s.good >= 0 {
		return nil
	}
	return s.fail
}

func (s *deviceStore) Write(page kv.PageID, slot int, k, v []float32) error {
	if err := s.call(); err != nil {
		return err
	}
	for i := range len(k) / 2 {
		s.rows[[2]int{int(page), slot + i}] = [2]float32{k[2*i], v[2*i]}
	}
	return nil
}

func (s *deviceStore) Copy(dst, src kv.PageID, slots int) error {
	if err := s.call(); err != nil {
		return err
	}
	s.copies++
	for i := range slots {
		s.rows[[2]int{int(dst), i}] = s.rows[[2]int{int(src), i}]
	}
	return nil
}

func (s *deviceStore) Planes() (k, v kv.Plane) { return s.k, s.v }

func (s *deviceStore) Close() error {
	s.closed = true
	return nil
}

// hasStamps compares what the store holds for a sequence.
func (s *deviceStore) hasStamps(t *testing.T, cache *kv.Cache, seq *kv.Sequence, stamps ...float32) {
	t.Helper()
	view, err := cache.View(seq)
	if err != nil {
		t.Fatal(err)
	}
	table := view.Seqs[0]
	if table.Len != len(stamps) {
		t.Fatalf("%d tokens, want %v", table.Len, stamps)
	}
	for pos, x := range stamps {
		at := [2]int{int(table.Pages[pos/small.PageSize]), pos % small.PageSize}
		if got := s.rows[at]; got != [2]float32{x, -x} {
			t.Fatalf("position %d holds %v, want %v and its negative", pos, got, x)
		}
	}
}

// TestStoreOfADevice: another store has the same bookkeeping. Where its copy fails,
// or one of its writes, nothing has changed.
func TestStoreOfADevice(t *testing.T) {
	store := &deviceStore{rows: map[[2]int][2]float32{}}
	cache, err := kv.NewOn(store, small)
	if err != nil {
		t.Fatal(err)
	}
	seq := cache.NewSequence()
	appendStamps(t, small, seq, 1, 2, 3, 4, 5, 6)
	fork, err := seq.Fork()
	if err != nil {
		t.Fatal(err)
	}
	before := cache.Stats()
	for good := range 3 { // a copy of the second page, and two writes
		store.fail, store.good = errors.New("no answer"), good
		if err := fork.Append(tokens(small, []float32{7, 8, 9, 10})); !errors.Is(err, store.fail) {
			t.Fatalf("append after %d good calls: %v, want the store's error", good, err)
		}
		store.hasStamps(t, cache, fork, 1, 2, 3, 4, 5, 6)
		if got := cache.Stats(); got != before {
			t.Fatalf("a failed append changed %+v to %+v", before, got)
		}
	}
	store.fail, store.copies = nil, 0
	appendStamps(t, small, fork, 7, 8, 9)
	appendStamps(t, small, seq, 20)
	store.hasStamps(t, cache, fork, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	store.hasStamps(t, cache, seq, 1, 2, 3, 4, 5, 6, 20)
	if store.copies != 1 {
		t.Errorf("%d pages copied, want 1: the last holder need not", store.copies)
	}
	if err := errors.Join(seq.Free(), fork.Free()); err != nil || cache.Stats().Used != 0 {
		t.Errorf("all is freed (%v), but %+v", err, cache.Stats())
	}
	if err := cache.Close(); err != nil || !store.closed {
		t.Errorf("close: %v, store closed: %t", err, store.closed)
	}
}

func TestNewOnRefuses(t *testing.T) {
	cfg := small
	cfg.PageSize = 0
	if _, err := kv.NewOn(&deviceStore{}, cfg); err == nil {
		t.Error("page size 0 was accepted")
	}
}
