package kv

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

// slowStore writes when it is told to.
type slowStore struct {
	begun, finish chan struct{}
	writes        atomic.Int32
	closed        atomic.Bool
}

func (s *slowStore) Write(PageID, int, []float32, []float32) error {
	s.writes.Add(1)
	select {
	case s.begun <- struct{}{}:
	case <-s.finish:
	}
	<-s.finish
	return nil
}

func (s *slowStore) Copy(PageID, PageID, int) error { return nil }
func (s *slowStore) Planes() (k, v Plane)           { return k, v }

func (s *slowStore) Close() error {
	s.closed.Store(true)
	return nil
}

// TestCloseWaitsForAppends: a store's memory may be gone once it is closed, so an
// append that has begun to write ends first, and one that has only taken its pages
// writes nothing.
func TestCloseWaitsForAppends(t *testing.T) {
	store := &slowStore{begun: make(chan struct{}), finish: make(chan struct{})}
	cache, err := NewOn(store, Config{NumKVHeads: 1, KeyDim: 1, ValueDim: 1, PageSize: 1, NumPages: 2})
	if err != nil {
		t.Fatal(err)
	}
	x := []float32{1}
	writing, late := cache.NewSequence(), cache.NewSequence()
	pages, replaced, err := late.extend(1)
	if err != nil {
		t.Fatal(err)
	}
	appended, closed := make(chan error), make(chan error)
	go func() { appended <- writing.Append(x, x) }()
	<-store.begun
	go func() { closed <- cache.Close() }()
	for cache.usable() == nil {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(10 * time.Millisecond)
	if store.closed.Load() {
		t.Error("the store is closed while a page is written")
	}
	close(store.finish)
	if err := errors.Join(<-appended, <-closed); err != nil || !store.closed.Load() {
		t.Errorf("append and close: %v, the store is closed: %t", err, store.closed.Load())
	}
	if err := late.fill(pages, replaced, 1, func(page PageID, slot, _, _ int) error { return cache.store.Write(page, slot, x, x) }); !errors.Is(err, ErrFreed) || store.writes.Load() != 1 {
		t.Errorf("after close: %v and %d writes, want ErrFreed and the 1 before", err, store.writes.Load())
	}
}
