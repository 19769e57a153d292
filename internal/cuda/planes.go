package cuda

import (
	"errors"
	"fmt"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/internal/nv"
	"github.com/flashdec/flashdec/kv"
)

// Plane is a [kv.Plane] in device memory: the row of a page, KV head and slot
// starts at element page·PageStride + head·HeadStride + slot·SlotStride.
type Plane struct {
	Type       kv.DType
	Data       nv.Pointer
	PageStride int
	HeadStride int
	SlotStride int
	Scales     Scales
}

// Scales are [kv.Scales] in device memory.
type Scales struct {
	Kind       kv.ScaleKind
	Values     nv.Pointer // float32
	PageStride int        // of tokens' scales, like the next two
	HeadStride int
	SlotStride int
}

// plane is a plane's types and strides, and where it lies on the device.
func plane(p kv.Plane) Plane {
	s := &p.Scales
	return Plane{
		Type: p.Type, PageStride: p.PageStride, HeadStride: p.HeadStride, SlotStride: p.SlotStride,
		Data: nv.Pointer(p.Device.Address),
		Scales: Scales{
			Kind: s.Kind, PageStride: s.PageStride, HeadStride: s.HeadStride, SlotStride: s.SlotStride,
			Values: nv.Pointer(s.Device.Address),
		},
	}
}

// putPlane copies to the device what of a plane lies on the host.
func (s *Step) putPlane(to *Plane, p *kv.Plane) error {
	var err error
	if p.Device.Address == 0 {
		err = put(s, &to.Data, p.Data)
	}
	if p.Scales.Device.Address == 0 {
		err = errors.Join(err, put(s, &to.Scales.Values, p.Scales.Values))
	}
	return err
}

// PlaneOf is a plane whose elements and scales lie on the device. It wraps
// [attn.ErrShape].
func PlaneOf(p kv.Plane) (Plane, error) {
	if p.Device.Address == 0 || p.Scales.Kind != kv.NoScales && p.Scales.Device.Address == 0 {
		return Plane{}, fmt.Errorf("cuda: %w: a plane's elements or scales lie in the host's memory, want the device's", attn.ErrShape)
	}
	return plane(p), nil
}

func (p Plane) params() planeParams {
	bits := int64(p.Type.Bits()) // strides of less than a byte's elements are even
	return planeParams{
		data:       p.Data,
		pageStride: int64(p.PageStride) * bits / 8,
		headStride: int64(p.HeadStride) * bits / 8,
		slotStride: int64(p.SlotStride) * bits / 8,
	}
}

// chunks is how many copies of 16 bytes a row takes.
func (p Plane) chunks(dim int32) int32 { return dim * int32(p.Type.Bits()) / (8 * chunkBytes) }

func (s Scales) params() scaleParams {
	return scaleParams{
		values:     s.Values,
		pageStride: int64(s.PageStride),
		headStride: int64(s.HeadStride),
		slotStride: int64(s.SlotStride),
		kind:       int32(s.Kind),
	}
}
