package cuda

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/internal/nv"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/plan"
)

// chain is a step with its inputs on the device, launched as layers are: each one's
// queries are what the one ahead has written.
type chain struct {
	*Step
	bufs Buffers
	q    []float32
	out  []float32 // on the host
}

const links = 5

func newChain(t *testing.T, b *Backend, l *backend.Launch, settled bool) *chain {
	t.Helper()
	k, v := plane(l.KV.K), plane(l.KV.V)
	cfg := StepConfig{Shape: l.Shape, Options: l.Options, Plan: l.Plan, Seqs: l.KV.Seqs, PageSize: l.KV.PageSize, K: k, V: v}
	if settled {
		cfg.Settled = true
		for _, s := range l.KV.Seqs {
			cfg.Capacity = append(cfg.Capacity, s.Len)
		}
	}
	s, err := b.NewStep(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c := &chain{Step: s, bufs: Buffers{K: k, V: v}, q: l.Q, out: make([]float32, len(l.Out))}
	if err := b.Do(func() error {
		return errors.Join(
			s.putPlane(&c.bufs.K, &l.KV.K), s.putPlane(&c.bufs.V, &l.KV.V),
			s.alloc(&c.bufs.Q, 4*len(l.Q)), s.alloc(&c.bufs.Out, 4*len(l.Out)),
		)
	}); err != nil {
		t.Fatal(err)
	}
	return c
}

// run is the chain's last output, with the filler's kernels ahead of each link.
func (c *chain) run(t *testing.T, b *Backend, filler *chain) []float32 {
	t.Helper()
	if err := b.Do(func() error {
		// No launch may leave what another has written.
		spoil := b.stream.Fill32(c.bufs.Out, 0x7fc00000, len(c.out))
		if err := errors.Join(spoil, nv.Upload(b.stream, c.bufs.Q, c.q), b.stream.Synchronize()); err != nil {
			return err
		}
		bufs := c.bufs
		for range links {
			if filler != nil {
				if err := filler.Launch(b.stream, filler.bufs); err != nil {
					return err
				}
			}
			if err := c.Launch(b.stream, bufs); err != nil {
				return err
			}
			bufs.Q, bufs.Out = bufs.Out, bufs.Q
		}
		return nv.Download(b.stream, c.out, bufs.Q)
	}); err != nil {
		t.Fatal(err)
	}
	return slices.Clone(c.out)
}

// apart makes the chain's launches wait for those ahead before they start.
func (c *chain) apart() { c.overlap, c.params.near = false, 0 }

// TestEarlyStartsReadTheirOwnPlan: steps are made where others were just given back, and
// launched behind kernels that still run: the bits are those of launches that wait. What
// L1 holds of the other step's works, page ids and queries must not be read.
func TestEarlyStartsReadTheirOwnPlan(t *testing.T) {
	b := open(t)
	rng := rand.New(rand.NewPCG(12, 12))
	shape := attn.Shape{NumHeads: 16, NumKVHeads: 4, KeyDim: 64, ValueDim: 64}
	long := problem{shape: shape, dtype: kv.BF16, lens: []int{3000, 5000}, queries: []int{1, 1}, pageSize: 16}
	filler := newChain(t, b, long.launch(t, rng, b.Info().Width), false)
	defer filler.Close()
	lens := []int{1100, 17, 900, 300, 64, 1, 510, 33}
	for round := range 60 {
		p := problem{
			shape: shape, dtype: []kv.DType{kv.BF16, kv.F32, kv.I8}[round%3], queries: slices.Repeat([]int{1}, len(lens)),
			pageSize: 16, splits: []int{0, 3, 20}[round/3%3],
		}
		if p.dtype == kv.I8 {
			p.kinds = [2]kv.ScaleKind{kv.TokenScale, kv.TokenScale}
		}
		for _, i := range rng.Perm(len(lens)) {
			p.lens = append(p.lens, lens[i])
		}
		t.Run(fmt.Sprintf("%d/%v", round, p), func(t *testing.T) {
			c := newChain(t, b, p.launch(t, rng, b.Info().Width), round%2 == 1)
			defer c.Close()
			if b.overlap && !c.overlap {
				t.Fatal("the step's launches do not start early")
			}
			early := c.run(t, b, filler)
			again := c.run(t, b, nil)
			c.apart()
			want := c.run(t, b, filler)
			if !slices.Equal(early, want) || !slices.Equal(again, want) {
				t.Error("launches that start early have other bits")
			}
		})
	}
}

// busyLaunches keep a stream busy for some milliseconds.
const busyLaunches = 500

// TestStepIsThereForOtherStreams: a step is made while the backend's stream is busy, and
// launched at once in a stream that knows nothing of it.
func TestStepIsThereForOtherStreams(t *testing.T) {
	b := open(t)
	rng := rand.New(rand.NewPCG(13, 13))
	p := problem{
		shape: attn.Shape{NumHeads: 16, NumKVHeads: 4, KeyDim: 64, ValueDim: 64}, dtype: kv.BF16,
		lens: []int{700, 33, 410}, queries: []int{1, 1, 1}, pageSize: 16, splits: 3,
	}
	l := p.launch(t, rng, b.Info().Width)
	busy := newChain(t, b, l, false) // has the inputs on the device, too
	defer busy.Close()
	want := make([]float32, len(l.Out))
	var other *nv.Stream
	if err := b.Do(func() (err error) {
		other, err = b.ctx.NewStream()
		return errors.Join(err, nv.Upload(b.stream, busy.bufs.Q, busy.q), b.stream.Synchronize())
	}); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if err := b.Do(func() error {
			var err error
			for range busyLaunches {
				err = errors.Join(err, busy.Launch(b.stream, busy.bufs))
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		s, err := b.NewStep(StepConfig{Shape: l.Shape, Options: l.Options, Plan: l.Plan, Seqs: l.KV.Seqs, PageSize: l.KV.PageSize, K: busy.k, V: busy.v})
		if err != nil {
			t.Fatal(err)
		}
		c := chain{Step: s, bufs: busy.bufs, q: busy.q, out: make([]float32, len(want))}
		if err := b.Do(func() (err error) {
			if c.bufs.Out, err = b.ctx.Alloc(4 * len(want)); err != nil {
				return err
			}
			s.memory = append(s.memory, c.bufs.Out)
			return errors.Join(s.Launch(other, c.bufs), nv.Download(other, c.out, c.bufs.Out), s.Launch(b.stream, c.bufs), nv.Download(b.stream, want, c.bufs.Out))
		}); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if !slices.Equal(c.out, want) {
			t.Fatal("launched in another stream, the step has other bits")
		}
	}
	if err := b.Do(other.Destroy); err != nil {
		t.Error(err)
	}
}

// TestEarlyStartsHaveABound: a step that reads more than overlapBytes starts when the
// launch ahead has ended, whatever the width of an int.
func TestEarlyStartsHaveABound(t *testing.T) {
	for _, c := range []struct {
		dtype kv.DType
		dim   int
		keys  int // of all KV heads
		early bool
	}{
		{kv.BF16, 128, 1 << 20, true},  // 512 MB
		{kv.BF16, 128, 3 << 20, true},  // the bound
		{kv.BF16, 128, 4 << 20, false}, // 2 GB
		{kv.I4, 128, 12 << 20, true},
		{kv.I4, 128, 13 << 20, false},
		{kv.F32, 512, 1 << 18, true},
		{kv.F32, 512, 1 << 20, false}, // 4 GB
	} {
		s := &Step{b: &Backend{overlap: true}, kernel: &kernel{stages: 3}}
		s.overlaps(StepConfig{
			Shape: attn.Shape{KeyDim: c.dim, ValueDim: c.dim}, Plan: &plan.Plan{Items: []plan.Item{{End: c.keys}}}, K: Plane{Type: c.dtype}, V: Plane{Type: c.dtype},
		}, 1)
		if s.overlap != c.early {
			t.Errorf("%d keys of %v[%d] start early: %t, want %t", c.keys, c.dtype, c.dim, s.overlap, c.early)
		}
	}
}
