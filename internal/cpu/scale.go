package cpu

import (
	"github.com/flashdec/flashdec/internal/simd"
	"github.com/flashdec/flashdec/kv"
)

// Kernels multiply the codes of quantised types. Scales come in beside them:
//
//	of keys    tensor, head, channel    into q
//	           token                    into q·k, before softcap and bias
//	of values  token                    into the weights, once l has their sum
//	           tensor, head             into a chunk's averages

// scaledQueries is dst = q·scale, times the scales that the item's keys share. In
// float64 neither a large q nor a tiny scale leaves the range in between.
func (w *worker) scaledQueries(dst, q []float32) {
	k := &w.job.launch.KV.K
	if k.Scales.Kind == kv.NoScales || k.Scales.Kind == kv.TokenScale {
		w.score.scaled(dst, q)
		return
	}
	for i, x := range q {
		shared := k.Scales.Shared(w.item.Head, i%k.Dim, k.Dim)
		dst[i] = float32(float64(x) * w.score.scale * float64(shared))
	}
}

// tokenScales fills dst with the scales of the tokens of a page from a slot on.
func tokenScales(dst []float32, s *kv.Scales, page kv.PageID, head, slot int) {
	at := s.Offset(page, head, slot)
	for i := range dst {
		x := s.Values[at]
		dst[i] = x + (x - x) // an infinite scale is NaN
		at += s.SlotStride
	}
}

// scaleWeights multiplies the weights of keys with the scales of their values, if
// they have any, and with unit.
func scaleWeights(p []float32, rows, keys int, scales []float32, unit float32) {
	if len(scales) == 0 && unit != 1 { // a weight that was not −0 does not become so
		for r := range rows {
			multiply(p[r*simd.TileKeys:][:keys], unit)
		}
		return
	}
	simd.ScaleWeights(p, simd.TileKeys, rows, scales, unit)
}

// A weight times a tiny scale would lose its digits among the subnormals. So sums
// of a chunk begin in a unit that lifts them, and come down once a scale is large
// enough for what is lost beside it not to matter.
const (
	lift      = 0x1p96
	liftBelow = 0x1p-32 // lifted, codes times scales are below 2⁸⁰, so a sum does not overflow

	// lower is the unit of a chunk whose sum has overflowed: its weights sum to at
	// most chunkKeys = 2¹², so in units of 2¹³ no sum of finite values does, rounded
	// up as it may be. What is lost among the subnormals is nothing beside such values.
	lower = 0x1p-13
)

// overflowed reports a sum that is not finite though its weights are. Values that
// are not finite bring that about, too: then a smaller unit changes nothing.
func (w *worker) overflowed() bool {
	dim := w.chunks.dim
	for r := range w.rows {
		if w.l[r] == 0 || w.l[r]-w.l[r] != 0 {
			continue // no key, or NaN
		}
		for _, x := range w.o[r*dim:][:dim] {
			if x-x != 0 {
				return true
			}
		}
	}
	return false
}

// firstUnit is the unit in which a chunk's sums begin.
func (w *worker) firstUnit() float32 {
	if w.job.launch.KV.V.Scales.Kind == kv.TokenScale {
		return lift
	}
	return 1
}

// comeDown ends the lift if a scale of the tile's values wants it.
func (w *worker) comeDown(scales []float32) {
	if w.unit != lift {
		return
	}
	for _, x := range scales {
		if x >= liftBelow || x <= -liftBelow {
			w.unit = 1
			multiply(w.o[:w.rows*w.chunks.dim], 1/float32(lift))
			return
		}
	}
}

// scaleAverage takes a chunk's average to values.
func (w *worker) scaleAverage(o []float32) {
	x := w.job.launch.KV.V.Scales.Shared(w.item.Head, 0, len(o)) / w.unit
	if x != 1 {
		multiply(o, x)
	}
}

// multiply is o = o·x.
func multiply(o []float32, x float32) {
	for d := range o {
		o[d] *= x
	}
}
