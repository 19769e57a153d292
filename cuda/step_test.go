package cuda_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/cuda"
	"github.com/flashdec/flashdec/internal/nv"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/plan"
)

// TestReplayFollowsTheCache: one captured step serves a cache that grows, shrinks
// and changes its pages, with the bits of a fresh plan; lengths from none to the
// whole capacity.
func TestReplayFollowsTheCache(t *testing.T) {
	for _, opt := range []attn.Options{{}, {Causal: true, Window: 37}} {
		s := newScene(t)
		s.grow(0, 16)
		s.grow(1, 16)
		graph, err := s.step(5, 700, opt).Capture(s.memoryNow())
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range [][2]int{{0, 0}, {1, 3}, {48, 200}, {301, 0}, {-300, 41}, {-66, 440}, {5, -600}} {
			for i := range n {
				if n[i] >= 0 {
					s.grow(i, n[i])
				} else if err := errors.Join(s.seqs[i].Truncate(s.seqs[i].Len()+n[i]), s.twins[i].Truncate(s.twins[i].Len()+n[i])); err != nil {
					t.Fatal(err)
				}
			}
			view := s.view()
			if err := graph.Replay(&view, 0); err != nil {
				t.Fatal(err)
			}
			s.check(opt)
			out, lse := s.results()
			if err := s.step(5, 0, opt).Launch(s.memory, 0); err != nil {
				t.Fatal(err)
			}
			if freshOut, freshLSE := s.results(); s.allSplit(5) && (!slices.Equal(out, freshOut) || !slices.Equal(lse, freshLSE)) {
				t.Errorf("lengths %d and %d: other bits than a fresh plan's", s.seqs[0].Len(), s.seqs[1].Len())
			}
		}
		if err := graph.Close(); err != nil {
			t.Error(err)
		}
	}
}

func (s *scene) memoryNow() cuda.Layer { s.view(); return s.memory }

// allSplit reports whether a fresh plan has that many splits everywhere.
func (s *scene) allSplit(n int) bool {
	return s.seqs[0].Len() >= n && s.seqs[1].Len() >= n
}

// TestReplayRefusesWhatDoesNotFit: an error, and nothing is computed.
func TestReplayRefusesWhatDoesNotFit(t *testing.T) {
	s := newScene(t)
	s.grow(0, 16)
	s.grow(1, 16)
	follows, err := s.step(2, 64, attn.Options{}).Capture(s.memoryNow())
	if err != nil {
		t.Fatal(err)
	}
	fixed, err := s.step(2, 0, attn.Options{}).Capture(s.memoryNow())
	if err != nil {
		t.Fatal(err)
	}
	view := s.view()
	one := view
	one.Seqs = view.Seqs[:1]
	for name, err := range map[string]error{
		"another number of sequences": follows.Replay(&one, 0),
		"fixed, one sequence less":    fixed.Replay(&one, 0),
	} {
		if !errors.Is(err, cuda.ErrStale) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := fixed.Replay(&view, 0); err != nil {
		t.Error(err)
	}
	s.check(attn.Options{})
	s.grow(1, 49)
	view = s.view()
	for name, g := range map[string]*cuda.Graph{"beyond the capacity": follows, "fixed, and longer": fixed} {
		if err := g.Replay(&view, 0); !errors.Is(err, cuda.ErrStale) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := errors.Join(follows.Close(), fixed.Close()); err != nil {
		t.Error(err)
	}
}

// TestLengthOutOfRangeOnTheDevice: lengths that the caller's own kernels wrote are
// checked there: NaN for that sequence, the right result for the other, and an
// error of Wait.
func TestLengthOutOfRangeOnTheDevice(t *testing.T) {
	s := newScene(t)
	s.grow(0, 30)
	s.grow(1, 30)
	step := s.step(3, 64, attn.Options{})
	write := func(lens ...int32) {
		bits := make([]float32, len(lens))
		for i, n := range lens {
			bits[i] = math.Float32frombits(uint32(n))
		}
		if err := errors.Join(s.gpu.Upload(step.Lens(), bits), step.Launch(s.memoryNow(), 0)); err != nil {
			t.Fatal(err)
		}
	}
	for _, bad := range []int32{65, -1, math.MaxInt32, math.MinInt32} {
		write(30, bad)
		if err := step.Wait(0); !errors.Is(err, cuda.ErrStale) {
			t.Errorf("length %d: %v", bad, err)
		}
		out, lse := s.results()
		for i, x := range slices.Concat(out, lse) {
			second := i >= 512 && i < 1024 || i >= 1024+8
			if (x != x) != second {
				t.Fatalf("length %d: element %d is %v", bad, i, x)
			}
		}
	}
	write(30, 30)
	if err := step.Wait(0); err != nil {
		t.Error(err)
	}
	s.check(attn.Options{})
}

// TestForeignMemoryAndStream: tensors of another program of the process, on its
// stream.
func TestForeignMemoryAndStream(t *testing.T) {
	g := open(t)
	driver, err := nv.Open()
	if err != nil {
		t.Fatal(err)
	}
	dev, err := driver.Device(0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := dev.Retain() // as the CUDA runtime does
	if err != nil {
		t.Fatal(err)
	}
	defer ctx.Release()
	s := &scene{t: t, gpu: g, rng: rand.New(rand.NewPCG(3, 3))}
	const keys = 300
	k, v, q := s.random(keys*row), s.random(keys*row), s.random(512)
	var stream *nv.Stream
	var at [4]nv.Pointer // k, v, q, out
	if err := ctx.Do(func() (err error) {
		if stream, err = ctx.NewStream(); err != nil {
			return err
		}
		for i, x := range [][]float32{k, v, q, q} {
			if at[i], err = ctx.Alloc(4 * len(x)); err != nil {
				return err
			}
			if err := nv.Upload(stream, at[i], x); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	plane := func(p nv.Pointer) kv.Plane { // [keys, heads, dim]
		return kv.Plane{Type: kv.F32, Dim: 64, SlotStride: row, HeadStride: 64, PageStride: keys * row, Device: kv.Memory{Address: uint64(p), Bytes: 4 * keys * row}}
	}
	view := kv.View{K: plane(at[0]), V: plane(at[1]), NumKVHeads: 2, PageSize: keys, NumPages: 1, Seqs: []kv.Table{{Pages: []kv.PageID{0}, Len: keys}}}
	p, err := plan.New(plan.Config{Seqs: []plan.Seq{{Len: keys, NumQueries: 1}}, NumKVHeads: 2, GroupSize: 4, Width: 128})
	if err != nil {
		t.Fatal(err)
	}
	step, err := g.NewStep(cuda.StepConfig{Shape: shape, Plan: p, KV: view})
	if err != nil {
		t.Fatal(err)
	}
	defer step.Close()
	out := make([]float32, 512)
	if err := step.Launch(cuda.Layer{K: view.K, V: view.V, Q: cuda.Pointer(at[2]), Out: cuda.Pointer(at[3])}, cuda.Stream(stream.Handle())); err != nil {
		t.Fatal(err)
	}
	if err := ctx.Do(func() error { return nv.Download(stream, out, at[3]) }); err != nil {
		t.Fatal(err)
	}
	host := view
	host.K.Device, host.V.Device = kv.Memory{}, kv.Memory{}
	ref := direct(t, k, v, q, keys)
	for i, want := range ref.Out {
		if !(math.Abs(float64(out[i])-want) < 2e-5) {
			t.Fatalf("element %d: %v, want %v", i, out[i], want)
		}
	}
	if _, err := g.NewStep(cuda.StepConfig{Shape: shape, Plan: p, KV: host}); !errors.Is(err, attn.ErrShape) {
		t.Errorf("planes without memory: %v", err)
	}
}

// direct is attention over [keys, heads, dim] on the host, by the CPU's cache.
func direct(t *testing.T, k, v, q []float32, keys int) attn.Reference {
	c, err := kv.New(kv.Config{NumKVHeads: 2, KeyDim: 64, ValueDim: 64, PageSize: keys, NumPages: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s := c.NewSequence()
	if err := s.Append(k, v); err != nil {
		t.Fatal(err)
	}
	view, err := c.View(s)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := attn.Direct(shape, &attn.Options{}, 0, q, view.Sequence(0))
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

// TestEngineOnDeviceCache: the engine's whole way on a cache of the GPU's, and the
// CPU's refusal of it.
func TestEngineOnDeviceCache(t *testing.T) {
	s := newScene(t)
	s.grow(0, 200)
	s.grow(1, 77)
	view := s.view()
	batch := flashdec.Batch{Shape: shape, Lens: []int{200, 77}}
	for name, o := range map[string]flashdec.Options{"gpu": {Backend: keepOpen{s.gpu}}, "cpu": {}} {
		e, err := flashdec.Open(o)
		if err != nil {
			t.Fatal(err)
		}
		step, err := e.Plan(batch)
		if err != nil {
			t.Fatal(err)
		}
		out := step.NewOutput()
		err = e.Decode(t.Context(), step, s.q, view, out)
		if name == "cpu" {
			if !errors.Is(err, attn.ErrShape) {
				t.Errorf("on the CPU: %v, want ErrShape", err)
			}
		} else if err != nil {
			t.Error(err)
		} else if err := errors.Join(s.gpu.Upload(s.memory.Out, out.Out), s.gpu.Upload(s.memory.LSE, out.LSE)); err != nil {
			t.Error(err)
		} else {
			s.check(attn.Options{})
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

// keepOpen is a GPU that its engine does not close.
type keepOpen struct{ *cuda.GPU }

func (keepOpen) Close() error { return nil }
