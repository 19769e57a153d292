package cpu_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/backend/backendtest"
	"github.com/flashdec/flashdec/internal/cpu"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/plan"
)

// bitsOf decodes a launch on one worker.
func bitsOf(t *testing.T, l *backend.Launch) []uint32 {
	t.Helper()
	b := cpu.New(cpu.Options{Threads: 1})
	defer b.Close()
	if err := b.Decode(context.Background(), l); err != nil {
		t.Fatal(err)
	}
	bits := make([]uint32, 0, len(l.Out)+len(l.LSE))
	for _, x := range append(l.Out[:len(l.Out):len(l.Out)], l.LSE...) {
		bits = append(bits, math.Float32bits(x))
	}
	return bits
}

// besideAlone wants the bits of heads that go side by side to be those of heads
// that go alone.
func besideAlone(t *testing.T, beside, alone *backend.Launch) {
	t.Helper()
	if n := cpu.SideBySide(beside, 1); n < 2 {
		t.Fatalf("%d heads go side by side, want several", n)
	}
	if n := cpu.SideBySide(alone, 1); n != 1 {
		t.Fatalf("%d heads go side by side, want each alone", n)
	}
	got, want := bitsOf(t, beside), bitsOf(t, alone)
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("number %d is %v, alone it is %v", i, math.Float32frombits(got[i]), math.Float32frombits(want[i]))
		}
	}
	compare(t, beside)
}

// TestHeadsSideBySideKeepTheirBits: a head's result does not depend on whether
// others go beside it, under every rule that heads do not share, and where the sum of
// one of them overflows.
func TestHeadsSideBySideKeepTheirBits(t *testing.T) {
	slopes := []float32{0.1, -0.2, 0.3, 0.4, 0.5, -0.6}
	mask := &attn.Mask{Seqs: 1, Queries: 3, Keys: 5000, Visible: make([]uint8, 3*5000)}
	for i := range mask.Visible {
		mask.Visible[i] = uint8(i % 3)
	}
	for name, change := range map[string]func(*backendtest.Case){
		"plain":     func(*backendtest.Case) {},
		"biases":    func(c *backendtest.Case) { c.Options.Slopes = slopes },
		"softcap":   func(c *backendtest.Case) { c.Options.Softcap = 5 },
		"sinks":     func(c *backendtest.Case) { c.Options.Sinks = slopes },
		"window":    func(c *backendtest.Case) { c.Options.Window = 777 },
		"prompt":    func(c *backendtest.Case) { c.Queries, c.Options.Causal = []int{3, 2, 1, 5}, true },
		"splits":    func(c *backendtest.Case) { c.NumSplits = 7 },
		"invariant": func(c *backendtest.Case) { c.NumSplits, c.Invariant = 0, true },
		"mask": func(c *backendtest.Case) {
			c.Lens, c.Queries, c.Options.Mask, c.Options.Slopes = []int{5000}, []int{3}, mask, slopes
		},
		"hidden": func(c *backendtest.Case) { // −Inf scores of one head
			c.KType = kv.F32
			c.Key = func(dst []float32, seq, head, pos int) {
				if head == 1 && pos%97 == 5 {
					dst[0] = float32(math.Inf(-1))
				}
			}
			c.Query = func(dst []float32, seq, query, head int) { dst[0] = 1 }
		},
		"a head overflows": func(c *backendtest.Case) {
			c.KType, c.VType = kv.F32, kv.F32
			c.Value = func(dst []float32, seq, head, pos int) {
				for i := range dst {
					dst[i] = []float32{float32(pos % 5), 3e38, 1e-40}[head]
				}
			}
		},
	} {
		for _, pages := range []struct {
			size   int
			seed   uint64
			layout kv.Layout
		}{{16, 3, kv.HND}, {16, 3, kv.NHD}, {16, 0, kv.HND}, {16, 0, kv.NHD}, {1, 3, kv.HND}, {7, 3, kv.HND}, {7, 0, kv.NHD}, {64, 3, kv.HND}, {640, 3, kv.NHD}} {
			c := backendtest.Case{
				Shape: attn.Shape{NumHeads: 6, NumKVHeads: 3, KeyDim: 24, ValueDim: 20},
				Lens:  []int{5000, 0, 333, 40}, KType: kv.F16, VType: kv.BF16, NumSplits: 1,
			}
			change(&c)
			alone := launch(t, cpu.New(cpu.Options{Threads: 1}), func(dst *backendtest.Case) { *dst = c })
			c.PageSize, c.PageSeed, c.Layout = pages.size, pages.seed, pages.layout
			beside := launch(t, cpu.New(cpu.Options{Threads: 1}), func(dst *backendtest.Case) { *dst = c })
			t.Run(fmt.Sprintf("%s/pages=%v", name, pages), func(t *testing.T) { besideAlone(t, beside, alone) })
		}
	}
}

// TestQueryTilesOfSplitsThatFollow: where an item's queries are several tiles, each
// split of a task takes all of them.
func TestQueryTilesOfSplitsThatFollow(t *testing.T) {
	l := launch(t, cpu.New(cpu.Options{Threads: 1}), func(c *backendtest.Case) {
		*c = backendtest.Case{
			Shape: attn.Shape{NumHeads: 32, NumKVHeads: 2, KeyDim: 16, ValueDim: 16},
			Lens:  []int{400}, Queries: []int{16}, NumSplits: 3, Options: attn.Options{Causal: true},
		}
	})
	bitsOf(t, l)
	compare(t, l)
}

// TestQuantisedHeadsSideBySideKeepTheirBits: heads bring their own scales along.
func TestQuantisedHeadsSideBySideKeepTheirBits(t *testing.T) {
	for _, types := range [][2]kv.DType{{kv.I8, kv.I4}, {kv.F8E4M3, kv.I8}} {
		beside, alone := tokens(t, types, 16), tokens(t, types, 2000)
		t.Run(fmt.Sprint(types), func(t *testing.T) { besideAlone(t, beside, alone) })
	}
}

// tokens is a step of three KV heads whose keys and values have a scale each.
func tokens(t *testing.T, types [2]kv.DType, pageSize int) *backend.Launch {
	t.Helper()
	const n, heads, dim = 1900, 3, 34
	cache, err := kv.New(kv.Config{
		NumKVHeads: heads, KeyDim: dim, ValueDim: dim, PageSize: pageSize, NumPages: n/pageSize + 1, KeyType: types[0], ValueType: types[1],
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cache.Close() })
	seq := cache.NewSequence()
	x := make([]float32, n*heads*dim)
	for i := range x {
		x[i] = float32(i%19-9) * float32(1+i/dim%7) // another scale a row
	}
	if err := seq.Append(x, x); err != nil {
		t.Fatal(err)
	}
	view, err := cache.View(seq)
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.New(plan.Config{NumKVHeads: heads, GroupSize: 2, Width: 1, NumSplits: 2, Seqs: []plan.Seq{{Len: n, NumQueries: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	l := &backend.Launch{
		Shape: attn.Shape{NumHeads: 2 * heads, NumKVHeads: heads, KeyDim: dim, ValueDim: dim}, Options: &attn.Options{Scale: 0.003}, Plan: p, KV: view,
		Q: x[:2*heads*dim], Out: make([]float32, 2*heads*dim), LSE: make([]float32, 2*heads),
	}
	if err := l.Validate(); err != nil {
		t.Fatal(err)
	}
	return l
}
