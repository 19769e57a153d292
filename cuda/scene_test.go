package cuda_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/cuda"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/plan"
)

var shape = attn.Shape{NumHeads: 8, NumKVHeads: 2, KeyDim: 64, ValueDim: 64}

const row = 2 * 64 // of keys, and of values, of a token

// scene is two sequences in a cache on the GPU and in one on the host, with queries
// and results on the GPU.
type scene struct {
	t      *testing.T
	gpu    *cuda.GPU
	rng    *rand.Rand
	cache  *cuda.Cache
	seqs   []*kv.Sequence
	twin   *kv.Cache
	twins  []*kv.Sequence
	q      []float32
	memory cuda.Layer
}

func newScene(t *testing.T) *scene { return sceneOn(t, 100) }

// sceneOn is a scene whose caches have that many pages of 16.
func sceneOn(t *testing.T, pages int) *scene {
	s := &scene{t: t, gpu: open(t), rng: rand.New(rand.NewPCG(1, 2))}
	cfg := kv.Config{NumKVHeads: 2, KeyDim: 64, ValueDim: 64, PageSize: 16, NumPages: pages, KeyType: kv.F16, ValueType: kv.F16}
	var err error
	if s.cache, err = s.gpu.NewCache(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.cache.Close() })
	if s.twin, err = kv.New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.twin.Close() })
	for range 2 {
		s.seqs = append(s.seqs, s.cache.NewSequence())
		s.twins = append(s.twins, s.twin.NewSequence())
	}
	s.q = s.random(2 * 8 * 64)
	s.memory.Q, s.memory.Out, s.memory.LSE = s.alloc(len(s.q)), s.alloc(2*8*64), s.alloc(2*8)
	if err := s.gpu.Upload(s.memory.Q, s.q); err != nil {
		t.Fatal(err)
	}
	return s
}

func open(t *testing.T) *cuda.GPU {
	t.Helper()
	g, err := cuda.Open(cuda.Options{})
	if err != nil {
		skip(t, err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

func (s *scene) random(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(s.rng.NormFloat64())
	}
	return x
}

func (s *scene) alloc(floats int) cuda.Pointer {
	p, err := s.gpu.Alloc(4 * floats)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { s.gpu.Free(p) })
	return p
}

// grow appends n tokens to a sequence, from the host's memory or the GPU's.
func (s *scene) grow(i, n int) {
	k, v := s.random(n*row), s.random(n*row)
	err := s.twins[i].Append(k, v)
	if n%2 == 0 {
		err = errors.Join(err, s.seqs[i].Append(k, v))
	} else {
		dk, dv := s.alloc(len(k)), s.alloc(len(v))
		err = errors.Join(err, s.gpu.Upload(dk, k), s.gpu.Upload(dv, v), s.cache.Append(s.seqs[i], n, dk, dv))
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) view() kv.View {
	v, err := s.cache.View(s.seqs...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.memory.K, s.memory.V = v.K, v.V
	return v
}

// plan forces that many splits.
func (s *scene) plan(splits int, opt attn.Options) *plan.Plan {
	cfg := plan.Config{NumKVHeads: 2, GroupSize: 4, Width: 128, NumSplits: splits, Causal: opt.Causal, Window: opt.Window}
	for _, q := range s.seqs {
		cfg.Seqs = append(cfg.Seqs, plan.Seq{Len: q.Len(), NumQueries: 1})
	}
	p, err := plan.New(cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

func (s *scene) step(splits, capacity int, opt attn.Options) *cuda.Step {
	step, err := s.gpu.NewStep(cuda.StepConfig{Shape: shape, Options: opt, Plan: s.plan(splits, opt), KV: s.view(), Capacity: capacity})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := step.Close(); err != nil {
			s.t.Error(err)
		}
	})
	return step
}

// results brings them to the host.
func (s *scene) results() (out, lse []float32) {
	out, lse = make([]float32, 2*8*64), make([]float32, 2*8)
	if err := errors.Join(s.gpu.Download(out, s.memory.Out), s.gpu.Download(lse, s.memory.LSE)); err != nil {
		s.t.Fatal(err)
	}
	return out, lse
}

// check holds results to the direct softmax over the twins.
func (s *scene) check(opt attn.Options) {
	s.t.Helper()
	out, lse := s.results()
	view, err := s.twin.View(s.twins...)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := range s.twins {
		ref, err := attn.Direct(shape, &opt, i, s.q[i*512:][:512], view.Sequence(i))
		if err != nil {
			s.t.Fatal(err)
		}
		for j, want := range ref.Out {
			if got := float64(out[i*512+j]); !(math.Abs(got-want) < 2e-5) {
				s.t.Fatalf("sequence %d of %d keys, element %d: %v, want %v", i, view.Seqs[i].Len, j, got, want)
			}
		}
		for j, want := range ref.LSE {
			if got := float64(lse[i*8+j]); got != want && !(math.Abs(got-want) < 3e-5) {
				s.t.Fatalf("sequence %d: LSE %v, want %v", i, got, want)
			}
		}
	}
}
