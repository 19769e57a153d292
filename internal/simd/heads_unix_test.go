//go:build unix

package simd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// TestHeadsSideBySideAtEveryLevel: heads that go side by side have the bits of heads
// one by one, however their keys are parted into stretches, and nothing lies beyond
// their buffers.
func TestHeadsSideBySideAtEveryLevel(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(31, 32))
		for e := F32; e < NumElems; e++ {
			if HeadsScores(e) == nil {
				continue
			}
			for range 60 {
				c := randomTile(t, rng, e)
				if rng.IntN(3) == 0 {
					c.dim = 128 * (1 + rng.IntN(2))
				}
				h := &Heads{N: 1 + rng.IntN(4), First: 1 + rng.IntN(c.keys), Run: 1 + rng.IntN(20)}
				c.layHeads(t, rng, h)
				c.checkHeads(t, rng, h)
			}
		}
	})
}

// layHeads makes the case one of heads side by side, with gaps of NaN between them.
func (c *tileCase) layHeads(t *testing.T, rng *rand.Rand, h *Heads) {
	size := c.e.RowBytes(c.dim)
	pitch := size + rng.IntN(2)
	h.Pitch = c.keys*pitch + rng.IntN(3)
	c.tile.Off = guardedInts(t, c.keys, c.atEnd)
	c.tile.Data = guarded(t, (h.N-1)*h.Pitch+(c.keys-1)*pitch+size, c.atEnd)
	for i := range c.tile.Data {
		c.tile.Data[i] = 0x7f
	}
	for i, j := range rng.Perm(c.keys) {
		if rng.IntN(2) == 0 {
			c.tile.Off[i] = i * pitch // places may be taken twice
		} else {
			c.tile.Off[i] = j * pitch
		}
	}
	for n := range h.N {
		for _, off := range c.tile.Off {
			Narrow(c.tile.Data[n*h.Pitch+off:], c.e, randomFloats(rng, c.dim))
		}
	}
	h.Scores = (c.rows-1)*c.stride + c.keys + rng.IntN(3)
	h.Rows, h.Alpha = c.rows*c.dim+rng.IntN(3), rng.IntN(2)*(c.rows+1)
	h.Partial = h.N*h.Rows + rng.IntN(20)
}

func (c *tileCase) checkHeads(t *testing.T, rng *rand.Rand, h *Heads) {
	t.Helper()
	last := h.last()
	q := c.floats(t, rng, last.Rows+c.rows*c.dim)
	s := c.floats(t, rng, last.Scores+(c.rows-1)*c.stride+c.keys)
	ahead := Ahead{c.tile.Data, c.tile.Off, 4096}
	want := append([]float32(nil), s...)
	for n := range h.N {
		Scores(c.e)(want[n*h.Scores:], c.stride, q[n*h.Rows:], c.rows, c.dim, Tile{c.tile.Data[n*h.Pitch:], c.tile.Off}, Ahead{})
	}
	HeadsScores(c.e)(s, c.stride, q, c.rows, c.dim, c.tile, h, ahead)
	sameBits(t, fmt.Sprintf("%v heads %+v: scores", c, *h), s, want)

	o := c.floats(t, rng, last.Rows+h.Partial+c.rows*c.dim)
	for i := range o[h.Partial:] {
		o[h.Partial+i] = float32(math.NaN())
	}
	alpha := c.floats(t, rng, last.Alpha+c.rows)
	alpha[rng.IntN(len(alpha))] = 0
	want = append(want[:0], o...)
	for n := range h.N {
		Accumulate(c.e)(want[n*h.Rows:], c.rows, c.dim, s[n*h.Scores:], c.stride, alpha[n*h.Alpha:], Tile{c.tile.Data[n*h.Pitch:], c.tile.Off}, Ahead{})
	}
	HeadsAccumulate(c.e)(o, c.rows, c.dim, s, c.stride, alpha, c.tile, h, ahead)
	sameBits(t, fmt.Sprintf("%v heads %+v: sums", c, *h), o[:h.Partial], want[:h.Partial])
	for n := range h.N { // between the heads' partial sums nothing is written
		for i := n*h.Rows + c.rows*c.dim; n+1 < h.N && i < (n+1)*h.Rows; i++ {
			if x := o[h.Partial+i]; x == x {
				t.Fatalf("%v heads %+v: %v was written behind the sums of head %d that were put aside", c, *h, x, n)
			}
		}
	}
}

// TestSeveralTilesAtEveryLevel: sums of several tiles by one call have the bits of a call
// a tile, of which the first comes down by alpha.
func TestSeveralTilesAtEveryLevel(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(33, 34))
		for e := F32; e < NumElems; e++ {
			for i := range 40 {
				c := randomTile(t, rng, e)
				c.keys = 1 + rng.IntN(5*TileKeys)
				c.stride = c.keys + rng.IntN(3)
				if i%3 == 0 {
					c.dim = 128 * (1 + rng.IntN(2))
				}
				c.layHeads(t, rng, &Heads{N: 1})
				c.checkTiles(t, rng)
			}
		}
	})
}

func (c *tileCase) checkTiles(t *testing.T, rng *rand.Rand) {
	t.Helper()
	o, p := c.floats(t, rng, c.rows*c.dim), c.floats(t, rng, (c.rows-1)*c.stride+c.keys)
	alpha := c.floats(t, rng, c.rows)
	alpha[rng.IntN(c.rows)] = 0
	want, a := append([]float32(nil), o...), append([]float32(nil), alpha...)
	for j := 0; j < c.keys; j += TileKeys {
		end := min(j+TileKeys, c.keys)
		Accumulate(c.e)(want, c.rows, c.dim, p[j:], c.stride, a, Tile{c.tile.Data, c.tile.Off[j:end]}, Ahead{})
		for r := range a {
			a[r] = 1
		}
	}
	Accumulate(c.e)(o, c.rows, c.dim, p, c.stride, alpha, c.tile, Ahead{c.tile.Data, c.tile.Off[:c.keys/2], 64})
	sameBits(t, fmt.Sprintf("%v: sums", c), o, want)
}
