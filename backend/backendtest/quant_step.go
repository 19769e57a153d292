package backendtest

import (
	"slices"
	"testing"

	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/kv"
)

// build lays the case out in memory. Slots that hold no key have a scale of NaN,
// or codes that would be seen.
func (c quantCase) build() *Step {
	if c.Name == "" {
		c.Name = c.String()
	}
	s := &Step{Case: &c.Case}
	s.buildTables()
	k, v := c.sides()
	s.View.K, s.View.V = k.plane(s), v.plane(s)
	s.fillQ()
	c.refer(s)
	return s
}

// plane makes the side's plane and fills it.
func (s *side) plane(step *Step) kv.Plane {
	p := s.strides()
	p.Data = make([]byte, step.View.NumPages*p.PageStride*s.t.Bits()/8)
	for i := range p.Data {
		p.Data[i] = 0x7f // NaN, or a large number
	}
	p.Scales = s.scales(step.View.NumPages)
	row := make([]float32, s.dim)
	for seq, table := range step.View.Seqs {
		for pos := range table.Len {
			for head := range s.Shape.NumKVHeads {
				page, slot := table.Pages[pos/step.View.PageSize], pos%step.View.PageSize
				s.numbers(row, seq, head, pos)
				s.store(p.Data[p.Offset(page, head, slot):], row)
				if s.kind == kv.TokenScale {
					p.Scales.Values[p.Scales.Offset(page, head, slot)] = s.scaleAt(seq, head, pos, 0)
				}
			}
		}
	}
	return p
}

// strides are a plane's, without memory.
func (s *side) strides() kv.Plane {
	row := (s.t.RowBytes(s.dim) + s.Pad*s.t.RowBytes(1)) * 8 / s.t.Bits()
	p := kv.Plane{Type: s.t, Dim: s.dim, PageStride: row * s.Shape.NumKVHeads * s.pageSize()}
	p.HeadStride, p.SlotStride = row*s.pageSize(), row
	if s.Layout == kv.NHD {
		p.HeadStride, p.SlotStride = row, row*s.Shape.NumKVHeads
	}
	return p
}

// scales are the side's, those of tokens NaN. In the NHD layout a token's heads
// are together; padding is of scales, too.
func (s *side) scales(pages int) kv.Scales {
	heads, slots := s.Shape.NumKVHeads, s.pageSize()
	p := kv.Scales{Kind: s.kind}
	switch s.kind {
	case kv.TensorScale:
		p.Values = []float32{s.scaleAt(0, 0, 0, 0)}
	case kv.HeadScale:
		for head := range heads {
			p.Values = append(p.Values, s.scaleAt(0, head, 0, 0))
		}
	case kv.ChannelScale:
		for i := range heads * s.dim {
			p.Values = append(p.Values, s.scaleAt(0, i/s.dim, 0, i%s.dim))
		}
	case kv.TokenScale:
		p.PageStride, p.HeadStride, p.SlotStride = heads*slots+s.Pad, slots, 1
		if s.Layout == kv.NHD {
			p.HeadStride, p.SlotStride = 1, heads
		}
		p.Values = slices.Repeat([]float32{nan()}, pages*p.PageStride)
	}
	return p
}

// store encodes a row.
func (s *side) store(dst []byte, row []float32) {
	if !s.t.Quantised() {
		encode(dst, s.t, row)
		return
	}
	for i, x := range row {
		s.codes.put(dst, i, x)
	}
}

// verifyQuant builds a quantised case, computes it and judges it.
func (c *config) verifyQuant(t testing.TB, b backend.Backend, q quantCase) Result {
	t.Helper()
	return c.verifyStep(t, b, q.build())
}
