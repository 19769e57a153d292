package cuda_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/cuda"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/plan"
)

// TestTrapCapacity: 15 and 21, a token for which there is no page is refused, and the
// other sequence keeps its own; the last slot of the last page is used.
func TestTrapCapacity(t *testing.T) {
	s := sceneOn(t, 9) // pages of 16
	s.grow(0, 128)
	s.grow(1, 5)
	k, v := s.random(row), s.random(row)
	if err := s.seqs[0].Append(k, v); !errors.Is(err, kv.ErrNoPages) {
		t.Errorf("a 129th key on 8 pages of 16: %v, want ErrNoPages", err)
	}
	dk, dv := s.alloc(row), s.alloc(row)
	if err := errors.Join(s.gpu.Upload(dk, k), s.gpu.Upload(dv, v)); err != nil {
		t.Fatal(err)
	}
	if err := s.cache.Append(s.seqs[0], 1, dk, dv); !errors.Is(err, kv.ErrNoPages) {
		t.Errorf("the same from the GPU's memory: %v, want ErrNoPages", err)
	}
	s.grow(1, 11) // to the last slot
	if err := s.step(3, 0, attn.Options{}).Launch(s.memoryNow(), 0); err != nil {
		t.Fatal(err)
	}
	s.check(attn.Options{})
	view := s.view()
	view.Seqs = slices.Clone(view.Seqs)
	view.Seqs[0].Len++
	p, err := plan.New(plan.Config{Seqs: []plan.Seq{{Len: 129, NumQueries: 1}, {Len: 16, NumQueries: 1}}, NumKVHeads: 2, GroupSize: 4, Width: 128})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.gpu.NewStep(cuda.StepConfig{Shape: shape, Plan: p, KV: view})
	if !errors.Is(err, kv.ErrCapacity) {
		t.Errorf("a step over 129 keys on 8 pages of 16: %v, want ErrCapacity", err)
	}
}

// TestTrapOneLengthForAll: 16, two sequences of equal length in a cache of more pages
// than sequences.
func TestTrapOneLengthForAll(t *testing.T) {
	s := sceneOn(t, 20)
	s.grow(0, 100)
	s.grow(1, 100)
	if err := s.step(2, 0, attn.Options{}).Launch(s.memoryNow(), 0); err != nil {
		t.Fatal(err)
	}
	s.check(attn.Options{})
}

// TestTrapStrides: 22, keys and values interleaved in one allocation, and values with
// strides of their own.
func TestTrapStrides(t *testing.T) {
	g := open(t)
	const pages, slots, heads, dim = 4, 16, 2, 64
	const half = slots * heads * dim // of a page: keys, then values
	s := &scene{t: t, gpu: g, rng: rand.New(rand.NewPCG(4, 4))}
	for name, apart := range map[string]int{"one allocation": 2 * half, "other strides": 3 * half} {
		k := s.random(pages * 2 * half)
		v := k[half:]
		if apart != 2*half {
			v = s.random(pages * apart)
		}
		plane := func(x []float32, at cuda.Pointer, skip, pageStride int) kv.Plane {
			return kv.Plane{Type: kv.F32, Dim: dim, PageStride: pageStride, HeadStride: dim, SlotStride: heads * dim, Device: kv.Memory{Address: uint64(at) + uint64(4*skip), Bytes: 4 * (len(x) - skip)}}
		}
		at, q, out := s.alloc(len(k)), s.alloc(512), s.alloc(512)
		vAt, skip := at, half
		if apart != 2*half {
			vAt, skip = s.alloc(len(v)), 0
		}
		queries := s.random(512)
		if err := errors.Join(g.Upload(at, k), g.Upload(q, queries)); err != nil {
			t.Fatal(err)
		}
		if vAt != at {
			if err := g.Upload(vAt, v); err != nil {
				t.Fatal(err)
			}
		}
		whole := v
		if vAt == at {
			whole = k
		}
		table := kv.Table{Len: 61, Pages: []kv.PageID{2, 0, 3, 1}}
		view := kv.View{K: plane(k, at, 0, 2*half), V: plane(whole, vAt, skip, apart), NumKVHeads: heads, PageSize: slots, NumPages: pages, Seqs: []kv.Table{table}}
		p, err := plan.New(plan.Config{Seqs: []plan.Seq{{Len: table.Len, NumQueries: 1}}, NumKVHeads: heads, GroupSize: 4, Width: 8, NumSplits: 3})
		if err != nil {
			t.Fatal(err)
		}
		step, err := g.NewStep(cuda.StepConfig{Shape: shape, Plan: p, KV: view})
		if err != nil {
			t.Fatal(err)
		}
		got := make([]float32, 512)
		if err := errors.Join(step.Launch(cuda.Layer{K: view.K, V: view.V, Q: q, Out: out}, 0), g.Download(got, out), step.Close()); err != nil {
			t.Fatal(err)
		}
		rows := func(x []float32, pageStride int) (flat []float32) {
			for i := range table.Len {
				flat = append(flat, x[int(table.Pages[i/slots])*pageStride+i%slots*heads*dim:][:heads*dim]...)
			}
			return flat
		}
		ref := direct(t, rows(k, 2*half), rows(v, apart), queries, table.Len)
		for i, want := range ref.Out {
			if !(math.Abs(float64(got[i])-want) < 2e-5) {
				t.Fatalf("%s: element %d is %v, want %v", name, i, got[i], want)
			}
		}
	}
}

// TestTrapReplays: 29, a captured step replayed at far other lengths, two windows in
// turn over one cache, and two scales of equal shapes: each has its own rules.
func TestTrapReplays(t *testing.T) {
	s := sceneOn(t, 700)
	s.grow(0, 16)
	s.grow(1, 16)
	rules := []attn.Options{{Window: 16}, {Window: 300}, {Scale: 1 / math.Sqrt(128)}, {Scale: 3 / math.Sqrt(128)}}
	var graphs []*cuda.Graph
	for _, opt := range rules {
		g, err := s.step(6, 5000, opt).Capture(s.memoryNow())
		if err != nil {
			t.Fatal(err)
		}
		graphs = append(graphs, g)
	}
	for _, to := range [][2]int{{16, 16}, {4096, 1}, {0, 5000}} {
		for i, n := range to {
			if have := s.seqs[i].Len(); n > have {
				s.grow(i, n-have)
			} else if err := errors.Join(s.seqs[i].Truncate(n), s.twins[i].Truncate(n)); err != nil {
				t.Fatal(err)
			}
		}
		view := s.view()
		for i, g := range graphs {
			if err := g.Replay(&view, 0); err != nil {
				t.Fatal(err)
			}
			s.check(rules[i])
		}
	}
	for _, g := range graphs {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
}
