package kv

import (
	"fmt"
	"math"

	"github.com/flashdec/flashdec/internal/simd"
)

// put stores a row in the place of a page, KV head and slot: the codes nearest to
// row / scale, and the scale itself where each token has its own. It wraps
// [ErrNotFinite].
func (p *Plane) put(page PageID, head, slot int, row []float32) error {
	at := p.Offset(page, head, slot)
	dst := p.Data[at : at+p.RowBytes()]
	if !p.Type.Quantised() {
		simd.Narrow(dst, simd.Elem(p.Type), row)
		return nil
	}
	scale := p.Scales.Shared(head, 0, p.Dim)
	if p.Scales.Kind == TokenScale {
		scale = p.Type.scaleFor(row)
		p.Scales.Values[p.Scales.Offset(page, head, slot)] = scale
	} else if i := notFinite(row); i >= 0 && p.Type.integer() {
		return fmt.Errorf("%w: element %d of head %d is %v, and %v with scales of kind %v has no code for it",
			ErrNotFinite, i, head, row[i], p.Type, p.Scales.Kind)
	}
	if p.Scales.Kind == ChannelScale {
		simd.QuantiseChannels(dst, simd.Elem(p.Type), row, p.Scales.Values[head*p.Dim:][:p.Dim])
		return nil
	}
	simd.Quantise(dst, simd.Elem(p.Type), row, scale)
	return nil
}

// scaleOfNone is the scale of a row whose only finite elements are zeros. It is not 0, since infinity · 0 would be NaN,
// and small, so that attention takes it for no reason to round what is tiny in other rows.
const scaleOfNone = 0x1p-40

// scaleFor is the scale of a token's row: it takes the largest finite |x| to the
// type's largest code. A row of zeros has 0. With the integers, a row that is not
// all finite has NaN; with the others, zeros beside what is not finite have [scaleOfNone].
func (t DType) scaleFor(row []float32) float32 {
	top, bad := simd.Largest(row), false
	if !simd.Finite(top) {
		top, bad = largestFinite(row), true
	}
	if bad && t.integer() {
		return float32(math.NaN())
	}
	if bad && top == 0 {
		return scaleOfNone
	}
	largest := dtypes[t].largest
	scale := top / largest
	if scale < 0x1p-126 && float64(scale)*float64(largest) < float64(top) {
		// Among the subnormals scale may be much too small for its codes to reach top.
		scale = math.Nextafter32(scale, 1)
	}
	return scale
}

// largestFinite is the largest finite |x| of a row.
func largestFinite(row []float32) (top float32) {
	for _, x := range row {
		if simd.Finite(x) {
			top = max(top, x, -x)
		}
	}
	return top
}

// notFinite is the index of the first NaN or infinity, -1 for none.
func notFinite(row []float32) int {
	if simd.Finite(simd.Largest(row)) {
		return -1
	}
	for i, x := range row {
		if !simd.Finite(x) {
			return i
		}
	}
	return -1
}
