package cpu_test

import (
	"context"
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/backend/backendtest"
	"github.com/flashdec/flashdec/internal/cpu"
	"github.com/flashdec/flashdec/kv"
)

// launch is a step with work for helpers, splits, and every score rule.
func launch(tb testing.TB, b backend.Backend, change func(*backendtest.Case)) *backend.Launch {
	tb.Helper()
	c := backendtest.Case{
		Seed:     3,
		Shape:    attn.Shape{NumHeads: 8, NumKVHeads: 2, KeyDim: 64, ValueDim: 64},
		Lens:     []int{800, 100, 0},
		Queries:  []int{1, 3, 1},
		KType:    kv.F16,
		VType:    kv.BF16,
		PageSize: 16, NumSplits: 3,
		Options: attn.Options{
			Causal: true, Softcap: 30,
			Slopes: []float32{0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8},
			Sinks:  make([]float32, 8),
		},
	}
	change(&c)
	s := c.Build()
	p, err := s.Plan(b.Info())
	if err != nil {
		tb.Fatal(err)
	}
	l := s.Launch(p)
	rows := l.NumQueries() * c.Shape.NumHeads
	l.Out, l.LSE = make([]float32, rows*c.Shape.ValueDim), make([]float32, rows)
	if err := l.Validate(); err != nil {
		tb.Fatal(err)
	}
	return l
}

func TestDecodeAllocatesNothing(t *testing.T) {
	mask := func(c *backendtest.Case) {
		c.Lens, c.Queries = []int{500, 500}, []int{2, 2}
		c.Options.Mask = &attn.Mask{Seqs: 1, Queries: 2, Keys: 500, Visible: make([]uint8, 1000)}
		for i := range c.Options.Mask.Visible {
			c.Options.Mask.Visible[i] = uint8(i % 2)
		}
	}
	for name, change := range map[string]func(*backendtest.Case){
		"rules":     func(*backendtest.Case) {},
		"one split": func(c *backendtest.Case) { c.NumSplits = 1 },
		"prompt":    func(c *backendtest.Case) { c.Queries = []int{20, 40, 1} },
		"mask":      mask,
		"bfloat16":  func(c *backendtest.Case) { *c = shortCase(8, 16) },
	} {
		for _, threads := range []int{1, 4} {
			b := cpu.NewEager(cpu.Options{Threads: threads})
			l := launch(t, b, change)
			ctx, cancel := context.WithCancel(context.Background())
			decode := func() {
				if err := b.Decode(ctx, l); err != nil {
					t.Fatal(err)
				}
			}
			for _, trace := range []*backend.Trace{nil, new(backend.Trace)} {
				l.Trace = trace
				for range 10 { // until every worker has had the largest item
					decode()
				}
				if n := testing.AllocsPerRun(5, decode); n != 0 {
					t.Errorf("%s on %d threads, traced %t: %v allocations a decode, want 0", name, threads, trace != nil, n)
				}
			}
			cancel()
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
