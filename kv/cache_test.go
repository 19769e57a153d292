package kv_test

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/kv"
)

var small = kv.Config{NumKVHeads: 1, KeyDim: 2, ValueDim: 2, PageSize: 4, NumPages: 8}

func open(t *testing.T, cfg kv.Config) *kv.Cache {
	t.Helper()
	cache, err := kv.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cache.Close() })
	return cache
}

func appendStamps(t *testing.T, cfg kv.Config, seq *kv.Sequence, stamps ...float32) {
	t.Helper()
	if err := seq.Append(tokens(cfg, stamps)); err != nil {
		t.Fatal(err)
	}
}

// TestAppendAtCapacity is the fault of an append at capacity that writes into
// the next sequence's cache.
func TestAppendAtCapacity(t *testing.T) {
	cfg := small
	cfg.NumPages = 2
	cache := open(t, cfg)
	full, other := cache.NewSequence(), cache.NewSequence()
	appendStamps(t, cfg, full, 1, 2, 3, 4)
	appendStamps(t, cfg, other, 9)
	err := full.Append(tokens(cfg, []float32{5}))
	if !errors.Is(err, kv.ErrNoPages) || !strings.Contains(err.Error(), "1 wanted, 0 of 2 free") {
		t.Errorf("append past capacity: %v, want ErrNoPages that says so", err)
	}
	holds(t, cache, full, 1, 2, 3, 4)
	holds(t, cache, other, 9)
}

// TestForksAppendAtOnce: siblings that share a partly filled page append from
// several goroutines, while the parent is read; each copies, or is the last holder
// and need not.
func TestForksAppendAtOnce(t *testing.T) {
	cfg := small
	cfg.NumPages = 400
	cache := open(t, cfg)
	parent := cache.NewSequence()
	appendStamps(t, cfg, parent, 1, 2, 3, 4, 5, 6)
	var wg sync.WaitGroup
	forks := make([]*kv.Sequence, 16)
	for i := range forks {
		f, err := parent.Fork()
		if err != nil {
			t.Fatal(err)
		}
		forks[i] = f
		wg.Go(func() {
			if err := f.Truncate(5 + i%2); err != nil {
				t.Error(err)
			}
			for j := range 20 {
				if err := f.Append(tokens(cfg, []float32{float32(16 + i + j)})); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 20 {
		holds(t, cache, parent, 1, 2, 3, 4, 5, 6)
	}
	wg.Wait()
	for i, f := range forks {
		want := []float32{1, 2, 3, 4, 5, 6}[:5+i%2]
		for j := range 20 {
			want = append(want, float32(16+i+j))
		}
		holds(t, cache, f, want...)
	}
	holds(t, cache, parent, 1, 2, 3, 4, 5, 6)
}

func TestSequenceErrors(t *testing.T) {
	cache, other := open(t, small), open(t, small)
	seq := cache.NewSequence()
	appendStamps(t, small, seq, 1, 2)
	freed := cache.NewSequence()
	if err := freed.Free(); err != nil {
		t.Fatal(err)
	}
	_, forkErr := freed.Fork()
	_, viewErr := cache.View(seq, freed)
	_, otherErr := other.View(seq)
	_, nilErr := cache.View(seq, nil)
	for name, tc := range map[string]struct {
		err, kind error
		says      string
	}{
		"ragged append":  {seq.Append(make([]float32, 3), make([]float32, 2)), attn.ErrShape, "k has 3 elements and v 2"},
		"values short":   {seq.Append(make([]float32, 4), make([]float32, 2)), attn.ErrShape, "k has 4 elements and v 2"},
		"truncate up":    {seq.Truncate(3), attn.ErrShape, "2 tokens to 3"},
		"truncate below": {seq.Truncate(-1), attn.ErrShape, "to -1"},
		"append freed":   {freed.Append(nil, nil), kv.ErrFreed, "freed"},
		"truncate freed": {freed.Truncate(0), kv.ErrFreed, "freed"},
		"fork freed":     {forkErr, kv.ErrFreed, "freed"},
		"free twice":     {freed.Free(), kv.ErrFreed, "freed"},
		"view of freed":  {viewErr, kv.ErrFreed, "sequence 1 of the view"},
		"other cache's":  {otherErr, attn.ErrShape, "another cache"},
		"nil sequence":   {nilErr, attn.ErrShape, "sequence 1 of the view: shape mismatch: it is nil"},
	} {
		if !errors.Is(tc.err, tc.kind) || !strings.Contains(tc.err.Error(), tc.says) {
			t.Errorf("%s: %v, want %v with %q", name, tc.err, tc.kind, tc.says)
		}
	}
}

// TestClosedCache: nothing panics, and a view that is still around can be read.
func TestClosedCache(t *testing.T) {
	cache, err := kv.New(small)
	if err != nil {
		t.Fatal(err)
	}
	seq := cache.NewSequence()
	appendStamps(t, small, seq, 7)
	view, err := cache.View(seq)
	if err != nil {
		t.Fatal(err)
	}
	if err := cache.Close(); err != nil {
		t.Fatal(err)
	}
	if err := seq.Append(nil, nil); !errors.Is(err, kv.ErrFreed) {
		t.Errorf("append to a closed cache: %v, want ErrFreed", err)
	}
	if err := cache.Close(); !errors.Is(err, kv.ErrFreed) {
		t.Errorf("close twice: %v, want ErrFreed", err)
	}
	row := make([]float32, 2)
	view.Sequence(0).Key(row, 0, 0)
}

func TestConfigRefused(t *testing.T) {
	for name, change := range map[string]func(*kv.Config){
		"KV heads is 0":         func(c *kv.Config) { c.NumKVHeads = 0 },
		"key dim is -1":         func(c *kv.Config) { c.KeyDim = -1 },
		"page size is 0":        func(c *kv.Config) { c.PageSize = 0 },
		"number of pages is 0":  func(c *kv.Config) { c.NumPages = 0 },
		"number of pages is 2":  func(c *kv.Config) { c.NumPages = math.MaxInt32 },
		"layout is 7":           func(c *kv.Config) { c.Layout = 7 },
		"element type DType(9)": func(c *kv.Config) { c.KeyType = 9 },
		"K has scales of kind head, which elements of type f32": func(c *kv.Config) { c.KeyScales.Kind = kv.HeadScale },
		"V has scales of kind channel":                          func(c *kv.Config) { c.ValueType, c.ValueScales.Kind = kv.I8, kv.ChannelScale },
		"K has 3 scales, want 2 of kind channel": func(c *kv.Config) {
			c.KeyType, c.KeyScales = kv.I8, kv.Scales{Kind: kv.ChannelScale, Values: make([]float32, 3)}
		},
		"K has 0 scales, want 1 of kind head": func(c *kv.Config) { c.KeyType, c.KeyScales.Kind = kv.I4, kv.HeadScale },
		"scale 0 of V is +Inf": func(c *kv.Config) {
			c.ValueType, c.ValueScales = kv.F8E4M3, kv.Scales{Kind: kv.TensorScale, Values: []float32{float32(math.Inf(1))}}
		},
		"V has 1 scales, want none": func(c *kv.Config) {
			c.ValueType, c.ValueScales = kv.I8, kv.Scales{Kind: kv.TokenScale, Values: []float32{1}}
		},
		"kind ScaleKind(9)":         func(c *kv.Config) { c.KeyType, c.KeyScales.Kind = kv.I8, 9 },
		"more bytes than can be":    func(c *kv.Config) { c.PageSize, c.NumPages, c.KeyDim = 1<<30, 1<<30, 1<<20 },
		"16777216 pages of 1048576": func(c *kv.Config) { c.PageSize, c.NumPages = 1<<20, 1<<24 },
	} {
		cfg := small
		change(&cfg)
		if _, err := kv.New(cfg); !errors.Is(err, attn.ErrShape) || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want ErrShape with %q", err, name)
		}
	}
	if _, err := kv.NewOn(nil, small); !errors.Is(err, attn.ErrShape) {
		t.Errorf("no store: %v, want ErrShape", err)
	}
}

// TestLayouts reads the stored bytes: HND keeps a head's tokens together, NHD a
// token's heads.
func TestLayouts(t *testing.T) {
	for _, tc := range []struct {
		layout kv.Layout
		want   []float32
	}{
		{kv.HND, []float32{1, 2, 1.25, 2.25}},
		{kv.NHD, []float32{1, 1.25, 2, 2.25}},
	} {
		cfg := kv.Config{NumKVHeads: 2, KeyDim: 1, ValueDim: 1, PageSize: 2, NumPages: 1, Layout: tc.layout, KeyType: kv.BF16}
		cache := open(t, cfg)
		seq := cache.NewSequence()
		appendStamps(t, cfg, seq, 1, 2)
		view, err := cache.View(seq)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range tc.want {
			bits := binary.LittleEndian.Uint32([]byte{0, 0, view.K.Data[2*i], view.K.Data[2*i+1]})
			if got := bitsToFloat(bits); got != want {
				t.Errorf("layout %d element %d is %v, want %v", tc.layout, i, got, want)
			}
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, dtype := range types {
		b.Run("dtype="+dtype.String(), func(b *testing.B) {
			cfg := kv.Config{NumKVHeads: 8, KeyDim: 128, ValueDim: 128, PageSize: 16, NumPages: 64, KeyType: dtype, ValueType: dtype}
			cache, err := kv.New(cfg)
			if err != nil {
				b.Fatal(err)
			}
			defer cache.Close()
			seq := cache.NewSequence()
			k, v := tokens(cfg, []float32{1})
			b.SetBytes(int64(cfg.PageBytes() / cfg.PageSize))
			for b.Loop() {
				if seq.Len() == 1024 {
					if err := seq.Truncate(0); err != nil {
						b.Fatal(err)
					}
				}
				if err := seq.Append(k, v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
