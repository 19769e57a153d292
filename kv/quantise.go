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
	scale := float32(1)
	if p.Scales.Kind == TokenScale {
		scale = p.Type.scaleFor(row)
		p.Scales.Values[p.Scales.Offset(page, head, slot)] = scale
	} else if i := notFinite(row); i >= 0 && p.Type.integer() {
		return fmt.Errorf("%w: element %d of head %d is %v, and %v with scales of kind %v has no code for it",
			ErrNotFinite, i, head, row[i], p.Type, p.Scales.Kind)
	}
	p.encode(dst, row, head, scale)
	return nil
}

// encodeAtOnce is even, so that each time ends at a whole byte.
const encodeAtOnce = 64

// encode stores the codes of a row whose token's scale, if it has one of its
// own, is scale.
func (p *Plane) encode(dst []byte, row []float32, head int, scale float32) {
	var codes [encodeAtOnce]float32
	for d := 0; d < len(row); d += encodeAtOnce {
		n := min(encodeAtOnce, len(row)-d)
		for i, x := range row[d : d+n] {
			codes[i] = p.Type.code(x, scale*p.Scales.Shared(head, d+i, p.Dim))
		}
		simd.Narrow(dst[p.Type.RowBytes(d):p.Type.RowBytes(d+n)], simd.Elem(p.Type), codes[:n])
	}
}

// code is x / scale, to be rounded to the nearest code. What is too large for the
// type becomes its largest, and a scale of zero gives zero. NaN stays NaN;
// infinity stays so where the type has it, and is NaN where not. (The integers
// know neither: their row has a scale of NaN then.)
func (t DType) code(x, scale float32) float32 {
	switch {
	case !simd.Finite(x) && t == F8E5M2:
		return x / scale
	case !simd.Finite(x):
		return float32(math.NaN())
	case scale == 0:
		return 0
	}
	const most = 57344 // of E5M2, which would go on to infinity; the others saturate below
	return min(max(x/scale, -most), most)
}

// scaleFor is the scale of a token's row: it takes the largest finite |x| to the
// type's largest code. A row of zeros has 0. With the integers, a row that is not
// all finite has NaN.
func (t DType) scaleFor(row []float32) float32 {
	top, bad := float32(0), notFinite(row) >= 0
	for _, x := range row {
		if simd.Finite(x) {
			top = max(top, x, -x)
		}
	}
	if bad && t.integer() {
		return float32(math.NaN())
	}
	if bad && top == 0 {
		return 1 // infinity · 0 would be NaN
	}
	largest := dtypes[t].largest
	scale := top / largest
	if scale < 0x1p-126 && float64(scale)*float64(largest) < float64(top) {
		// Among the subnormals scale may be much too small for its codes to reach top.
		scale = math.Nextafter32(scale, 1)
	}
	return scale
}

// notFinite is the index of the first NaN or infinity, -1 for none.
func notFinite(row []float32) int {
	for i, x := range row {
		if !simd.Finite(x) {
			return i
		}
	}
	return -1
}
