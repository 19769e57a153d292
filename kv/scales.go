package kv

import (
	"fmt"
	"math"
	"slices"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/internal/simd"
)

// ScaleKind says which elements share a scale.
type ScaleKind uint8

const (
	NoScales     ScaleKind = iota // a value is its element
	TensorScale                   // one for all: [1]
	HeadScale                     // one a KV head: [NumKVHeads]
	TokenScale                    // one a row, that is a token and KV head
	ChannelScale                  // one a KV head and channel, of keys only: [NumKVHeads, Dim]
)

var kindNames = [...]string{"none", "tensor", "head", "token", "channel"}

// String is the kind's name in messages.
func (k ScaleKind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("ScaleKind(%d)", uint8(k))
}

// Scales are what the elements of a plane are multiplied by: a value is element ×
// scale. The zero value is none. A scale may be zero or negative; an infinite one
// counts as NaN.
//
// In a [Config], those of TensorScale without Values are a scale of 1: what is stored
// is the code nearest to the value itself. The 8-bit floats keep their relative
// precision then, from 2⁻⁶ to 448 and from 2⁻¹⁴ to 57344; the integers round to whole
// numbers, −128 to 127 and −8 to 7, and nothing is left of values below ½.
type Scales struct {
	Kind   ScaleKind
	Values []float32
	// With TokenScale, the scale of a page, KV head and slot is at
	//
	//	page·PageStride + head·HeadStride + slot·SlotStride
	//
	// of Values. Strides are not negative; other kinds have none.
	PageStride int
	HeadStride int
	SlotStride int
	// Device, where set, holds the values for a device to read. The host's Values are
	// then those of kinds other than TokenScale, or nil.
	Device Memory

	keep *memory // what Values lie in, when it is not Go's
}

// Offset is where the scale of a page, KV head and slot is in Values, with
// TokenScale.
func (s *Scales) Offset(page PageID, head, slot int) int {
	return int(page)*s.PageStride + head*s.HeadStride + slot*s.SlotStride
}

// Shared is the scale of a channel of a KV head, of dim channels, that all tokens
// share: 1 where each has its own, or none has; NaN where there should be one and
// is not.
func (s *Scales) Shared(head, channel, dim int) float32 {
	at := 0
	switch s.Kind {
	case TensorScale:
	case HeadScale:
		at = head
	case ChannelScale:
		at = head*dim + channel
	default:
		return 1
	}
	if at < 0 || at >= len(s.Values) {
		return float32(math.NaN())
	}
	return nanIfInfinite(s.Values[at])
}

// has reports whether a row's own scale, if it has one, is among Values.
func (s *Scales) has(page PageID, head, slot int) bool {
	if s.Kind != TokenScale {
		return true
	}
	at, ok := extent([2]int{int(page), s.PageStride}, [2]int{head, s.HeadStride}, [2]int{slot, s.SlotStride})
	return ok && at < len(s.Values)
}

// nanIfInfinite is the scale x, NaN if it is infinite.
func nanIfInfinite(x float32) float32 { return x + (x - x) }

// multiply takes a row of elements to values.
func (s *Scales) multiply(row []float32, page PageID, head, slot int) {
	switch s.Kind {
	case NoScales:
	case TokenScale:
		x := nanIfInfinite(s.Values[s.Offset(page, head, slot)])
		for i := range row {
			row[i] *= x
		}
	default:
		for i := range row {
			row[i] *= s.Shared(head, i, len(row))
		}
	}
}

// count is how many scales there are.
func (s *Scales) count() int {
	if s.Device.Address != 0 {
		return s.Device.Bytes / 4
	}
	return len(s.Values)
}

// fits reports whether there is a scale for each row of pages up to last, for
// the given heads and slots a page, and rows of dim.
func (s *Scales) fits(name string, last PageID, heads, slots, dim int) error {
	if s.Kind == TokenScale {
		return s.fitTokens(name, last, heads, slots)
	}
	if s.Kind > ChannelScale || s.Kind == ChannelScale && name != keysName {
		return fmt.Errorf("%w: %s has scales of kind %v", attn.ErrShape, name, s.Kind)
	}
	if want, ok := s.Kind.fixed(heads, dim); !ok || s.count() != want {
		return fmt.Errorf("%w: %s has %d scales, want %d of kind %v, for %d heads × dim %d",
			attn.ErrShape, name, s.count(), want, s.Kind, heads, dim)
	}
	return nil
}

// fitTokens is fits for TokenScale.
func (s *Scales) fitTokens(name string, last PageID, heads, slots int) error {
	end, ok := extent([2]int{int(last), s.PageStride}, [2]int{heads - 1, s.HeadStride}, [2]int{slots - 1, s.SlotStride})
	if !ok || s.PageStride < 0 || s.HeadStride < 0 || s.SlotStride < 0 || end >= s.count() {
		return fmt.Errorf("%w: %s has %d scales with strides %d, %d, %d (page, head, slot), too few for page %d of %d heads × %d slots",
			attn.ErrShape, name, s.count(), s.PageStride, s.HeadStride, s.SlotStride, last, heads, slots)
	}
	return nil
}

// fixed is how many scales a kind has whose number does not depend on the tokens.
func (k ScaleKind) fixed(heads, dim int) (n int, ok bool) {
	switch k {
	case TensorScale:
		return 1, true
	case HeadScale:
		return heads, true
	case ChannelScale:
		return extent([2]int{heads, dim})
	}
	return 0, true
}

// keysName and valuesName are the planes' names in messages.
const keysName, valuesName = "K", "V"

// forType is what a cache makes of the scales that its configuration asks for,
// with the defaults put in.
func (s Scales) forType(t DType) Scales {
	kept := Scales{Kind: s.Kind, Values: slices.Clone(s.Values)}
	if s.Kind == NoScales && t.Quantised() {
		kept.Kind = TokenScale
	}
	if s.Kind == TensorScale && s.Values == nil {
		kept.Values = []float32{1}
	}
	return kept
}

// validate reports scales that a cache of elements of type t cannot have.
func (s *Scales) validate(name string, t DType, heads, dim int) error {
	if s.Kind != NoScales && !t.Quantised() {
		return fmt.Errorf("%w: %s has scales of kind %v, which elements of type %v do not take", attn.ErrShape, name, s.Kind, t)
	}
	if s.Kind == TokenScale {
		if len(s.Values) > 0 {
			return fmt.Errorf("%w: %s has %d scales, want none: those of tokens are computed", attn.ErrShape, name, len(s.Values))
		}
		return nil
	}
	for i, x := range s.Values {
		if !simd.Finite(x) {
			return fmt.Errorf("%w: scale %d of %s is %v, want a finite one", attn.ErrShape, i, name, x)
		}
	}
	return s.fits(name, 0, heads, 1, dim)
}
