package kv

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/flashdec/flashdec/attn"
)

// farStore is a store whose planes lie where the host cannot look.
type farStore struct {
	k, v  Plane
	freed atomic.Bool
}

func (s *farStore) Write(PageID, int, []float32, []float32) error { return nil }
func (s *farStore) Copy(PageID, PageID, int) error                { return nil }
func (s *farStore) Planes() (k, v Plane)                          { return s.k, s.v }
func (s *farStore) Close() error                                  { s.freed.Store(true); return nil }

func newFar(t *testing.T) (*farStore, *Cache) {
	t.Helper()
	cfg := Config{NumKVHeads: 2, KeyDim: 4, ValueDim: 3, PageSize: 4, NumPages: 5, KeyType: I8, ValueType: I8}
	s := &farStore{}
	s.k, s.v = cfg.Planes()
	for _, p := range [...]*Plane{&s.k, &s.v} {
		p.Device = Memory{Address: 64, Bytes: 5 * 4 * 2 * p.Dim, Freed: &s.freed}
		p.Scales.Device = Memory{Address: 64, Bytes: 5 * 4 * 2 * 4, Freed: &s.freed}
	}
	c, err := NewOn(s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s, c
}

// TestDeviceMemoryIsMeasuredNotRead: a view of it is checked by sizes alone, and the
// host's readers refuse it.
func TestDeviceMemoryIsMeasuredNotRead(t *testing.T) {
	store, c := newFar(t)
	seq := c.NewSequence()
	x, y := make([]float32, 18*8), make([]float32, 18*6)
	if err := seq.Append(x, y); err != nil {
		t.Fatal(err)
	}
	view, err := c.View(seq)
	if err != nil {
		t.Fatal(err)
	}
	if err := view.Validate(); err != nil {
		t.Errorf("what fits: %v", err)
	}
	if err := view.OnHost(); !errors.Is(err, attn.ErrShape) || !view.OnDevice() {
		t.Errorf("on the host: %v", err)
	}
	if _, err := seq.Loss(0, x, y); !errors.Is(err, attn.ErrShape) {
		t.Errorf("loss: %v", err)
	}
	for name, spoil := range map[string]func(*View){
		"K holds 159":          func(v *View) { v.K.Device.Bytes-- },
		"V holds 119":          func(v *View) { v.V.Device.Bytes-- },
		"K has 39 scales":      func(v *View) { v.K.Scales.Device.Bytes -= 4 },
		"V has 0 scales":       func(v *View) { v.V.Scales.Device = Memory{} },
		"values lie in device": func(v *View) { v.V.Device.Freed = new(atomic.Bool); v.V.Device.Freed.Store(true) },
	} {
		bad := view
		spoil(&bad)
		if err := bad.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %q", err, name)
		}
	}
	if err := c.Close(); err != nil || !store.freed.Load() {
		t.Fatal(err)
	}
	if err := view.Validate(); !errors.Is(err, ErrFreed) {
		t.Errorf("after close: %v", err)
	}
}

// TestAppendFuncFillsPages: its calls are the runs of adjacent slots, and an error or a panic of
// one leaves the sequence as it was.
func TestAppendFuncFillsPages(t *testing.T) {
	_, c := newFar(t)
	defer c.Close()
	seq := c.NewSequence()
	var got [][4]int
	write := func(page PageID, slot, first, count int) error {
		got = append(got, [4]int{int(page), slot, first, count})
		return nil
	}
	if err := errors.Join(seq.AppendFunc(3, write), seq.AppendFunc(6, write)); err != nil {
		t.Fatal(err)
	}
	want := [][4]int{{0, 0, 0, 3}, {0, 3, 0, 1}, {1, 0, 1, 4}, {2, 0, 5, 1}}
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			t.Fatalf("calls %v, want %v", got, want)
		}
	}
	failed := errors.New("failed")
	if err := seq.AppendFunc(9, func(_ PageID, _, first, _ int) error {
		if first > 4 {
			return failed
		}
		return nil
	}); !errors.Is(err, failed) || seq.Len() != 9 || c.Stats().Used != 3 {
		t.Errorf("%v, %d tokens on %d pages, want 9 on 3", err, seq.Len(), c.Stats().Used)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("a panic of the caller's function is lost")
			}
		}()
		_ = seq.AppendFunc(9, func(PageID, int, int, int) error { panic("of the caller's") })
	}()
	if seq.Len() != 9 || c.Stats().Used != 3 {
		t.Errorf("after a panic: %d tokens on %d pages, want 9 on 3", seq.Len(), c.Stats().Used)
	}
	if err := seq.AppendFunc(12, write); !errors.Is(err, ErrNoPages) {
		t.Errorf("12 tokens in 11 slots: %v", err)
	}
}
