package cpu

import (
	"math"
	"slices"

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
func (c *stream) scaledQueries(dst, q []float32) {
	k := &c.job.launch.KV.K
	if k.Scales.Kind == kv.NoScales || k.Scales.Kind == kv.TokenScale {
		c.rules.scaled(dst, q)
		return
	}
	for i, x := range q {
		shared := k.Scales.Shared(c.item.Head, i%k.Dim, k.Dim)
		dst[i] = float32(float64(x) * c.rules.scale * float64(shared))
	}
}

// tokenScales fills dst with the scales of the tokens of a page from a slot on. An
// infinite scale is NaN.
func tokenScales(dst []float32, s *kv.Scales, page kv.PageID, head, slot int) {
	at := s.Offset(page, head, slot)
	if s.SlotStride == 1 && simd.Divide(dst, s.Values[at:at+len(dst)], 1) {
		return // copied, and all are finite
	}
	for i := range dst {
		x := s.Values[at]
		dst[i] = x + (x - x)
		at += s.SlotStride
	}
}

const (
	// lineScales is how many scales a line of the cache holds.
	lineScales = 16

	// longScales is how many scales of a head lie together, and are read at once, where they
	// are not fetched ahead: the hardware's prefetcher leads who reads them, and fetches would hold
	// up those of rows.
	longScales = 1024 // docs/calibration.md
)

// listScales lists where the lines of scales begin that belong to the next sweep's
// keys, in the first KV head, if each key has one: they lie elsewhere, a line or two
// a page.
func (w *worker) listScales(list []int, s *kv.Scales) []int {
	list = list[:0]
	if s.Kind != kv.TokenScale || s.SlotStride == 1 && min(w.job.launch.KV.PageSize, w.job.sweepKeys) >= longScales {
		return list
	}
	step := max(1, lineScales/max(1, s.SlotStride))
	for at := w.pages(w.next.seq, w.next.lo, w.next.hi); at.next(); {
		first := s.Offset(at.page, 0, at.slot)
		for i := 0; i < at.slots; i += step {
			list = append(list, first+i*s.SlotStride)
		}
	}
	return list
}

// fetchScales fetches the scales of a KV head of the next sweep.
func (w *worker) fetchScales(turn int) {
	if !w.job.scaled || turn >= w.next.heads {
		return
	}
	head := w.next.head + turn
	for i, s := range [...]*kv.Scales{&w.job.launch.KV.K.Scales, &w.job.launch.KV.V.Scales} {
		if len(w.lines[i]) > 0 {
			simd.Fetch(s.Values[head*s.HeadStride:], w.lines[i])
		}
	}
}

// scaleWeights multiplies the weights of rows [first, first + rows) with the scales
// of their keys' values, if those have any, and with the rows' units.
func (c *stream) scaleWeights(p []float32, first, rows, keys int, scales []float32) {
	for r := 0; r < rows; {
		unit, end := c.unit[first+r], r+1
		for end < rows && c.unit[first+end] == unit {
			end++
		}
		p := p[r*c.job.stride():]
		switch {
		case unit == lower:
			for i := range end - r {
				lowerWeights(p[i*c.job.stride():][:keys], scales)
			}
		case len(scales) > 0:
			simd.ScaleWeights(p, c.job.stride(), end-r, scales, unit)
		case unit != 1: // a weight that was not −0 does not become so
			for i := range end - r {
				multiply(p[i*c.job.stride():][:keys], unit)
			}
		}
		r = end
	}
}

// lowerWeights multiplies weights with the scales of their keys' values, if those have any, and with lower. What
// was not zero does not become so: an infinite value would be NaN by it, where its product is infinite.
func lowerWeights(p, scales []float32) {
	for j, w := range p {
		if math.Float32bits(w) == simd.NegZero {
			continue // its key is hidden
		}
		scale := float32(1)
		if len(scales) > 0 {
			scale = scales[j]
		}
		switch x := w * (scale * lower); {
		case x != 0:
			p[j] = x
		case w != 0 && scale != 0:
			p[j] = float32(math.Copysign(math.SmallestNonzeroFloat32, float64(scale)))
		default:
			p[j] = 0 // not −0
		}
	}
}

// A weight times a tiny scale would lose its digits among the subnormals. So sums
// of a chunk begin in a unit that lifts them, and a row's come down once it sees a
// scale large enough for what is lost beside it not to matter.
const (
	lift      = 0x1p96
	liftBelow = 0x1p-32 // lifted, codes times scales are below 2⁸⁰, so a sum does not overflow

	// lower is the unit of sums that have overflowed: a chunk's weights sum to at
	// most chunkKeys = 2¹², so in units of 2¹³ no sum of finite values does, rounded
	// up as it may be. What is lost among the subnormals is nothing beside such values.
	lower = 0x1p-13
)

// sunk is what a chunk's averages are below where its products have lost digits among the
// subnormals. A product loses 2⁻¹⁵⁰ at most, so 4096 of them, over weights of at least 1, lose
// 2⁻¹³⁸: 2⁻²⁰ of values whose averages come to 2⁻¹¹⁸.
const sunk = 0x1p-118

// sunkRounded is the same of weights that are rounded, by kernels that take what is below 2⁻¹²⁶
// for zero: 4096 products lose 2⁻¹¹⁴.
const sunkRounded = 0x1p-94

// sinks says that values may be so small: as they are, with no scale and 8 bits of exponent.
func (c *stream) sinks() bool { return c.job.kernels.v == simd.F32 || c.job.kernels.v == simd.BF16 }

// sunken reports that a row's averages are below sunk, or sunkRounded, but for those that are not finite, if not
// all are such: what is NaN or infinite in one element says nothing of the others.
func (c *stream) sunken(o []float32) bool {
	least, finite := float32(sunk), false
	if c.job.kernels.rounded.accumulate != nil {
		least = sunkRounded
	}
	for _, x := range o {
		if x < least && x > -least {
			finite = true
		} else if simd.Finite(x) {
			return false
		}
	}
	return finite
}

// firstUnit is the unit in which a chunk's sums begin.
func (w *worker) firstUnit() float32 {
	if w.job.launch.KV.V.Scales.Kind == kv.TokenScale {
		return lift
	}
	return 1
}

// comeDown ends the lift of the part's rows if a scale of the values that they see wants it.
func (c *stream) comeDown() {
	first, rows, scales := c.part.first, c.part.rows, c.part.keys.vScale
	if len(scales) == 0 || !slices.Contains(c.unit[first:first+rows], lift) || !c.endLift(scales) {
		return
	}
	dim := c.chunks.dim
	for r := first; r < first+rows; r++ {
		if c.unit[r] == lift {
			c.unit[r] = 1
			multiply(c.o[r*dim:][:dim], 1/float32(lift))
		}
	}
}

// endLift reports that a scale of the part's values ends the lift: the first large one, but for
// those of rows without a number. These it makes zero, which changes no product with zeros: lifted, a
// large one may leave the range. What is not finite comes to NaN then, and is taken again (mend).
func (c *stream) endLift(scales []float32) bool {
	data, t := c.job.v.of(c.item.Head), c.job.launch.KV.V.Type
	for i, x := range scales {
		if x < liftBelow && x > -liftBelow || x != x {
			continue
		}
		if numbers(data[c.part.keys.v[i]:][:c.job.v.row], t) {
			return true
		}
		scales[i] = 0
	}
	return false
}

// toValues is what takes row r's averages to values.
func (c *stream) toValues(r int) float32 {
	return c.job.launch.KV.V.Scales.Shared(c.item.Head, 0, c.chunks.dim) / c.unit[r]
}

// multiply is o = o·x.
func multiply(o []float32, x float32) {
	for d := range o {
		o[d] *= x
	}
}
