package backendtest

import (
	"testing"

	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/kv"
)

// quantRegular: values of full size whose signs go by their place alone, as those of repeated tokens do, while
// queries and keys are random. A backend that rounds weights by their place, as by a list that each tile
// begins again, must not round one sign's weights up and the other's down throughout.
func (c *config) quantRegular(t *testing.T, b backend.Backend) {
	for _, dtype := range []kv.DType{kv.I8, kv.I4} {
		for _, n := range []int{192, 1500, 4096} {
			for _, by := range []float32{0.5, 1, 2} {
				q := quantSmall(dtype, kv.TokenScale, kv.TokenScale, n)
				q.Shape.KeyDim, q.Shape.ValueDim = 64, 64
				q.number = func(what byte, dst []float32, _, _, pos int) {
					if what != 'v' {
						return
					}
					for i := range dst {
						dst[i] = largest(dtype)
						if below(i, pos) {
							dst[i] *= -1
						}
					}
				}
				q.scale = func(_ byte, t kv.DType, _ scaleOf, _ uint64) float32 { return 1 / largest(t) }
				q.Query = func(dst []float32, _, _, _ int) {
					for i := range dst {
						dst[i] *= by
					}
				}
				c.verifyQuant(t, b, q)
			}
		}
	}
}

// periods are those of values that are below zero in their second half.
var periods = []int{2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 24, 32, 33, 63, 64, 65, 127, 128, 129, 256, 4096}

// lists are signs of period 64: of the internal/simd kernels' weights those that their tile 0 rounds up more
// often than down, and such as have no rule.
var lists = []uint64{roundedUp, 0x9e3779b97f4a7c15, 0x243f6a8885a308d3}

const roundedUp = 0x566565999656a66a

// below reports whether the value at pos is below zero in a channel: each has another pattern, the last ones none.
func below(channel, pos int) bool {
	const tile = 64
	switch i := channel - len(periods); {
	case i < 0:
		return pos%periods[channel]*2 >= periods[channel]
	case i < len(lists):
		return lists[i]>>(pos%tile)&1 != 0
	case i < 2*len(lists): // and turned in every other tile
		return lists[i-len(lists)]>>(pos%tile)&1 != uint64(pos/tile&1)
	case i == 2*len(lists): // a place on in every tile
		return (pos+pos/tile)%2 != 0
	}
	return false
}
