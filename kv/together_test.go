package kv_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/kv"
)

// TestTogetherEqualsAlone: caches side by side hold what caches alone do, in pages of the same numbers, that of one
// cache behind that of the one before; quantised types with their scales, too.
func TestTogetherEqualsAlone(t *testing.T) {
	const n, tokens = 3, 11
	for _, layout := range []kv.Layout{kv.HND, kv.NHD} {
		for _, dtype := range []kv.DType{kv.F32, kv.BF16, kv.I8, kv.I4} {
			cfg := kv.Config{NumKVHeads: 2, KeyDim: 6, ValueDim: 4, PageSize: 4, NumPages: 3, Layout: layout, KeyType: dtype, ValueType: dtype}
			together, err := kv.NewTogether(n, cfg)
			if err != nil {
				t.Fatal(err)
			}
			view := func(i int, c *kv.Cache) func() kv.View {
				seq := c.NewSequence()
				if err := seq.Append(numbered(i, tokens*2*6), numbered(i+n, tokens*2*4)); err != nil {
					t.Fatal(err)
				}
				return func() kv.View {
					v, err := c.View(seq)
					if err = errors.Join(err, v.Validate()); err != nil {
						t.Fatal(err)
					}
					return v
				}
			}
			var got, want [n]func() kv.View
			for i, cache := range together {
				got[i], want[i] = view(i, cache), view(i, open(t, cfg))
			}
			for i := range n { // when all are written
				v, alone := got[i](), want[i]()
				if !slices.Equal(rowsOf(&v, tokens), rowsOf(&alone, tokens)) {
					t.Errorf("layout %d, %v: cache %d holds other numbers than one alone", layout, dtype, i)
				}
				page := cfg.PageSize * cfg.NumKVHeads * v.K.RowBytes()
				if first := got[0](); &first.K.Data[i*page] != &v.K.Data[0] {
					t.Errorf("layout %d, %v: page 0 of cache %d does not follow that of the one before", layout, dtype, i)
				}
			}
			for _, cache := range together {
				if err := cache.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

// numbered is n numbers that differ.
func numbered(seed, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(math.Sin(float64(seed*n + i)))
	}
	return x
}

// rowsOf are all keys and values of the view's first sequence.
func rowsOf(v *kv.View, tokens int) (all []float32) {
	seq := v.Sequence(0)
	for i := range tokens {
		for head := range v.NumKVHeads {
			k, x := make([]float32, v.K.Dim), make([]float32, v.V.Dim)
			seq.Key(k, head, i)
			seq.Value(x, head, i)
			all = append(append(all, k...), x...)
		}
	}
	return all
}

// TestTogetherSizes: more caches than there can be, or than can be addressed, are refused.
func TestTogetherSizes(t *testing.T) {
	cfg := kv.Config{NumKVHeads: 1, KeyDim: 1, ValueDim: 1, PageSize: 1, NumPages: 1}
	for _, n := range []int{-1, 0, 1<<16 + 1, math.MaxInt} {
		if _, err := kv.NewTogether(n, cfg); !errors.Is(err, attn.ErrShape) {
			t.Errorf("%d caches: %v, want ErrShape", n, err)
		}
	}
	cfg.PageSize, cfg.NumPages = 1<<13, 1<<13 // 512 MiB each
	if math.MaxInt > math.MaxInt32 {
		cfg.PageSize, cfg.NumPages = 1<<20, 1<<22 // 32 TiB each
	}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err) // one alone is not too large
	}
	if _, err := kv.NewTogether(1<<10, cfg); !errors.Is(err, attn.ErrShape) {
		t.Errorf("2¹⁰ such caches: %v, want ErrShape", err)
	}
}
