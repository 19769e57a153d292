package cuda

import (
	"fmt"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
	icuda "github.com/flashdec/flashdec/internal/cuda"
	"github.com/flashdec/flashdec/internal/nv"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/plan"
)

// StepConfig is what a [Step] is made from.
type StepConfig struct {
	Shape   attn.Shape
	Options attn.Options
	Plan    *plan.Plan
	// KV says where the sequences lie: of one layer, whose planes' types, strides
	// and kinds of scales all layers share. It is a view of a cache of [GPU.NewCache],
	// or one whose planes have [kv.Memory] of the caller's own.
	KV kv.View
	// Capacity is how many keys a sequence may grow to. The step then reads lengths
	// and page tables when it runs, as [Step.Follow] last brought them, and cuts its
	// splits for them. 0: lengths stay as planned.
	Capacity int
	// Settled says that lengths and page tables change by [Step.Follow] alone: nothing
	// writes to [Step.Lens], so that a launch may read them before what is ahead of it in
	// the stream has ended.
	Settled bool
}

// Layer is what a launch reads and writes, in the GPU's memory.
type Layer struct {
	K, V kv.Plane
	Q    Pointer // [queries, NumHeads, KeyDim] float32
	Out  Pointer // [queries, NumHeads, ValueDim] float32
	LSE  Pointer // [queries, NumHeads] float32, natural; 0 if not wanted
	// Sinks are the layer's own, [NumHeads] float32, where layers that share a step
	// have others than its Options say; 0: as these say.
	Sinks Pointer
}

// Step is a decode step whose plan, page tables and scratch lie on the GPU. One
// launch of it runs after the other, in one stream. A launch reads the pages that
// [GPU.NewStep] or the last [Step.Follow] brought, as long as the caller wants: a
// sequence may grow within them meanwhile, and nothing asks whether it has given some
// back. After Truncate, Forget or Free, follow with a new view before the next launch.
type Step struct {
	gpu  *GPU
	step *icuda.Step
}

// NewStep checks a step as [backend.Launch.Validate] does and puts it on the GPU. It wraps
// the errors of that check, or what the driver refuses.
func (g *GPU) NewStep(c StepConfig) (*Step, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	k, err := icuda.PlaneOf(c.KV.K)
	if err != nil {
		return nil, err
	}
	v, err := icuda.PlaneOf(c.KV.V)
	if err != nil {
		return nil, err
	}
	inner := icuda.StepConfig{
		Shape: c.Shape, Options: &c.Options, Plan: c.Plan, Settled: c.Settled,
		Seqs: c.KV.Seqs, PageSize: c.KV.PageSize, K: k, V: v,
	}
	if c.Capacity > 0 {
		inner.Capacity = make([]int, len(c.KV.Seqs))
		for i := range inner.Capacity {
			inner.Capacity[i] = c.Capacity
		}
	}
	step, err := g.b.NewStep(inner)
	if err != nil {
		return nil, err
	}
	return &Step{g, step}, nil
}

// validate lets a launch with buffers of the right size check all but those.
func (c *StepConfig) validate() error {
	if c.Capacity < 0 {
		return fmt.Errorf("cuda: %w: capacity is %d, want at least 0", attn.ErrShape, c.Capacity)
	}
	l := backend.Launch{Shape: c.Shape, Options: &c.Options, Plan: c.Plan, KV: c.KV}
	return l.ValidateStep()
}

// Launch puts the step, for one layer, into a stream and returns. It wraps [attn.ErrShape]
// where the layer has no address for Q or Out, and [ErrStale] where its planes are of another
// type, strides, scales or alignment than the step was made for.
func (s *Step) Launch(layer Layer, stream Stream) error {
	return s.gpu.b.Do(func() error { return s.launch(layer, s.gpu.stream(stream)) })
}

func (s *Step) launch(layer Layer, stream *nv.Stream) error {
	if layer.Q == 0 || layer.Out == 0 {
		return fmt.Errorf("cuda: %w: a layer without an address for q or out", attn.ErrShape)
	}
	k, err := icuda.PlaneOf(layer.K)
	if err != nil {
		return err
	}
	v, err := icuda.PlaneOf(layer.V)
	if err != nil {
		return err
	}
	return s.step.Launch(stream, icuda.Buffers{
		K: k, V: v, Q: nv.Pointer(layer.Q), Out: nv.Pointer(layer.Out), LSE: nv.Pointer(layer.LSE),
		Sinks: nv.Pointer(layer.Sinks),
	})
}

// Follow brings the sequences' lengths and page tables to a step of some Capacity,
// in stream order. What it has no room for is an error that wraps [ErrStale], a view
// whose sequences have changed since one that wraps [kv.ErrStale], and nothing has
// changed then.
func (s *Step) Follow(view *kv.View, stream Stream) error {
	if err := view.Validate(); err != nil {
		return err
	}
	return s.gpu.b.Do(func() error { return s.step.Follow(s.gpu.stream(stream), view.Seqs, view.PageSize) })
}

// Lens is where the lengths lie that a step of some Capacity reads, [sequences]
// int32: the caller's own kernels may change them, within the pages that Follow
// brought.
func (s *Step) Lens() Pointer { return Pointer(s.step.Lens()) }

// Wait waits for a stream. It reports a launch that found a length out of its
// capacity, whose results are NaN, with an error that wraps [ErrStale].
func (s *Step) Wait(stream Stream) error {
	return s.gpu.b.Do(func() error { return s.step.Lost(s.gpu.stream(stream)) })
}

// Close gives the step's memory back, once its launches are done, if [GPU.Close] has not.
func (s *Step) Close() error { return s.step.Close() }

// Graph is a step over some layers, captured to be replayed at the cost of one
// call.
type Graph struct {
	step  *Step
	graph *icuda.Graph
}

// Capture records launches for the layers, in order, without running them. The
// layers' memory must stay where it is.
func (s *Step) Capture(layers ...Layer) (*Graph, error) {
	graph, err := s.gpu.b.Capture(func(stream *nv.Stream) error {
		for _, l := range layers {
			if err := s.launch(l, stream); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &Graph{s, graph}, nil
}

// Replay brings the view's lengths and page tables to the step and runs what was
// captured, in a stream. A view that the step has no room for is an error that wraps
// [ErrStale]; so is any other length than planned where it has no Capacity.
func (g *Graph) Replay(view *kv.View, stream Stream) error {
	if err := view.Validate(); err != nil {
		return err
	}
	return g.step.gpu.b.Do(func() error {
		s := g.step.gpu.stream(stream)
		if err := g.step.step.Follow(s, view.Seqs, view.PageSize); err != nil {
			return err
		}
		return g.graph.Launch(s)
	})
}

// Close gives the graph back, if [GPU.Close] has not.
func (g *Graph) Close() error { return g.graph.Close() }
