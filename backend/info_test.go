package backend_test

import (
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
)

// TestSaturatingKeys: elements of other than 16 bits have a limit of their own, and those of
// unknown size do not; what has no limit is 0, and a key that is longer than a limit is 1.
func TestSaturatingKeys(t *testing.T) {
	both := backend.Info{SaturatingElements: 1000, SaturatingConverted: 300}
	for _, c := range []struct {
		info      backend.Info
		dim, bits int
		want      int
	}{
		{both, 10, 0, 50},
		{both, 10, 16, 50},
		{both, 10, 32, 15},
		{both, 10, 8, 15},
		{both, 10, 4, 15},
		{both, 501, 16, 1},
		{both, 151, 8, 1},
		{both, 0, 8, 300},
		{backend.Info{SaturatingElements: 1000}, 10, 8, 0},
		{backend.Info{SaturatingConverted: 300}, 10, 16, 0},
		{backend.Info{SaturatingConverted: 300}, 10, 0, 0},
	} {
		shape := attn.Shape{NumHeads: 1, NumKVHeads: 1, KeyDim: c.dim, ValueDim: c.dim}
		if got := c.info.SaturatingKeys(shape, c.bits); got != c.want {
			t.Errorf("limits of %d elements and %d converted, dims of %d, %d bits: %d keys, want %d",
				c.info.SaturatingElements, c.info.SaturatingConverted, c.dim, c.bits, got, c.want)
		}
	}
}
