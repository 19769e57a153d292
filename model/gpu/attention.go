package gpu

import (
	"context"

	"github.com/flashdec/flashdec/cuda"
	"github.com/flashdec/flashdec/internal/network"
	"github.com/flashdec/flashdec/internal/nv"
	"github.com/flashdec/flashdec/kv"
)

// coded reports whether keys or values are codes, which have a scale a token and head.
func (s *steps) coded(k network.Kind) bool {
	return s.o.Cache[k].KeyType.Quantised() || s.o.Cache[k].ValueType.Quantised()
}

// plan puts a step for each kind of layers on the device. Sequences may grow by so many
// keys before it no longer fits. Steps read lengths on the device even where there is no
// room: what others read of their plan before the kernel ahead has ended may be what a
// step before had at the same address.
func (s *steps) plan(room int) error {
	for k := range network.NumKinds {
		if !s.n.Has(k) {
			continue
		}
		planned, err := s.o.Plan(k, s.in.Lens[k], s.in.Queries)
		if err != nil {
			return err
		}
		c := cuda.StepConfig{Shape: s.n.Shape, Options: s.n.Attention[k], Plan: planned.Plan(), KV: s.layerView(k, 0), Settled: true}
		for _, n := range s.in.Lens[k] {
			c.Capacity = max(c.Capacity, n+room)
		}
		if s.kinds[k].step, err = s.d.gpu.NewStep(c); err != nil {
			return err
		}
	}
	return nil
}

// layerView is the view of one layer of a kind: its heads of the kind's cache.
func (s *steps) layerView(k network.Kind, slot int) kv.View {
	v := s.kinds[k].view
	v.NumKVHeads = s.n.Shape.NumKVHeads
	for _, p := range [...]*kv.Plane{&v.K, &v.V} {
		skip := slot * v.NumKVHeads * p.HeadStride * p.Type.Bits() / 8
		p.Device.Address += uint64(skip)
		p.Device.Bytes -= skip
		if p.Scales.Kind == kv.TokenScale {
			skip := slot * v.NumKVHeads * p.Scales.HeadStride * 4
			p.Scales.Device.Address += uint64(skip)
			p.Scales.Device.Bytes -= skip
		}
	}
	return v
}

// Attend implements [network.Steps].
func (s *steps) Attend(ctx context.Context, i int) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	w, b := &s.w.layers[i], &s.buffers
	if !s.turnsInProduct(i) {
		if err := s.turn(i, w); err != nil {
			return err
		}
	}
	k := s.n.Layers[i].Kind
	view := s.layerView(k, s.slots[i])
	return s.kinds[k].step.Launch(cuda.Layer{
		K: view.K, V: view.V, Q: cuda.Pointer(b.q), Out: cuda.Pointer(b.o), Sinks: cuda.Pointer(w.sinks),
	}, s.d.gpu.Stream())
}

// turnsInProduct reports whether the product that makes queries, keys and values turns them and puts keys and
// values into the cache, too: where it is ours, and nothing has to norm whole heads in between, or to find the
// scale of their codes.
func (s *steps) turnsInProduct(i int) bool {
	return !s.many(s.tokens) && s.w.layers[i].queryNorm == 0 && !s.coded(s.n.Layers[i].Kind)
}

// turn norms and turns queries and keys, and puts keys and values into the cache.
func (s *steps) turn(i int, w *layer) error {
	b, shape := &s.buffers, s.n.Shape
	threads := min(max(tiles(shape.KeyDim/2, warp)*warp, warp), block)
	return launch(s.d, turnStore, grid(s.tokens, shape.NumHeads+2*shape.NumKVHeads), threads, 0, turnParams{
		q: b.q, k: b.k, v: b.v, qNorm: w.queryNorm, kNorm: w.keyNorm, rotation: s.rotation(i),
		heads: int32(shape.NumHeads), kvHeads: int32(shape.NumKVHeads), eps: float32(s.n.NormEps),
	})
}

// rotation is where the queries and keys of a layer turn to, and where its keys and values go.
func (s *steps) rotation(i int) rotationParams {
	k := s.n.Layers[i].Kind
	view, rope := s.layerView(k, s.slots[i]), &s.n.Ropes[k]
	r := rotationParams{
		turns: s.w.turns[k], positions: s.numbers(rowPositions), places: s.numbers(rowPlaces + int(k)),
		kStore: storeOf(&view.K), vStore: storeOf(&view.V),
		dim: int32(s.n.Shape.KeyDim), pageSize: int32(view.PageSize), scale: float32(rope.Scale),
	}
	if rope.Adjacent {
		r.adjacent = 1
	}
	r.kType, r.vType = elem(view.K.Type), elem(view.V.Type)
	return r
}

func storeOf(p *kv.Plane) storeParams {
	bits, s := int64(p.Type.Bits()), &p.Scales // strides of less than a byte's elements are even
	to := storeParams{
		data:       nv.Pointer(p.Device.Address),
		pageStride: int64(p.PageStride) * bits / 8, headStride: int64(p.HeadStride) * bits / 8, slotStride: int64(p.SlotStride) * bits / 8,
	}
	if s.Kind == kv.TokenScale {
		to.scales = nv.Pointer(s.Device.Address)
		to.scalePage, to.scaleHead, to.scaleSlot = int64(s.PageStride), int64(s.HeadStride), int64(s.SlotStride)
	}
	return to
}
