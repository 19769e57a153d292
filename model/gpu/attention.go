package gpu

import (
	"context"

	"github.com/flashdec/flashdec/cuda"
	"github.com/flashdec/flashdec/internal/network"
	"github.com/flashdec/flashdec/internal/nv"
	"github.com/flashdec/flashdec/kv"
)

// cacheElem is the kernels' name of a cache's type; false where they have none.
func cacheElem(t kv.DType) (elem, bool) {
	e, ok := map[kv.DType]elem{kv.F32: f32, kv.F16: f16, kv.BF16: bf16}[t]
	return e, ok
}

// plan puts a step for each kind of layers on the device. With room, sequences may grow
// by so many keys before it no longer fits.
func (s *steps) plan(room int) error {
	for k := range network.NumKinds {
		if !s.n.Has(k) {
			continue
		}
		planned, err := s.o.Plan(k, s.in.Lens[k], s.in.Queries)
		if err != nil {
			return err
		}
		c := cuda.StepConfig{Shape: s.n.Shape, Options: s.n.Attention[k], Plan: planned.Plan(), KV: s.layerView(k, 0)}
		if room > 0 {
			for _, n := range s.in.Lens[k] {
				c.Capacity = max(c.Capacity, n+room)
			}
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
	}
	return v
}

// Attend implements [network.Steps].
func (s *steps) Attend(ctx context.Context, i int) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	k, w := s.n.Layers[i].Kind, &s.w.layers[i]
	view := s.layerView(k, s.slots[i])
	if err := s.turn(k, w, &view); err != nil {
		return err
	}
	b := &s.buffers
	return s.kinds[k].step.Launch(cuda.Layer{
		K: view.K, V: view.V, Q: cuda.Pointer(b.q), Out: cuda.Pointer(b.o), Sinks: cuda.Pointer(w.sinks),
	}, s.d.gpu.Stream())
}

// turn norms and turns queries and keys, and puts keys and values into the cache.
func (s *steps) turn(k network.Kind, w *layer, view *kv.View) error {
	b, rope, shape := &s.buffers, &s.n.Ropes[k], s.n.Shape
	p := turnParams{
		q: b.q, k: b.k, v: b.v, qNorm: w.queryNorm, kNorm: w.keyNorm, turns: s.w.turns[k],
		positions: s.numbers(rowPositions), places: s.numbers(rowPlaces + int(k)),
		kStore: storeOf(&view.K), vStore: storeOf(&view.V),
		heads: int32(shape.NumHeads), kvHeads: int32(shape.NumKVHeads), dim: int32(shape.KeyDim), pageSize: int32(view.PageSize),
		scale: float32(rope.Scale), eps: float32(s.n.NormEps),
	}
	if rope.Adjacent {
		p.adjacent = 1
	}
	p.kType, _ = cacheElem(view.K.Type)
	p.vType, _ = cacheElem(view.V.Type)
	threads := min(max(tiles(shape.KeyDim/2, warp)*warp, warp), block)
	return launch(s.d, turnStore, grid(s.tokens, shape.NumHeads+2*shape.NumKVHeads), threads, 0, p)
}

func storeOf(p *kv.Plane) storeParams {
	bytes := int64(p.Type.Bits() / 8)
	return storeParams{
		data:       nv.Pointer(p.Device.Address),
		pageStride: int64(p.PageStride) * bytes, headStride: int64(p.HeadStride) * bytes, slotStride: int64(p.SlotStride) * bytes,
	}
}
