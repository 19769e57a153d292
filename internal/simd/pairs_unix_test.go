//go:build unix

package simd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// TestPairScoresAtEveryLevel: scores of queries that bfloat16 holds are those of others, of
// one head and of heads side by side.
func TestPairScoresAtEveryLevel(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(45, 46))
		for e := F32; e < NumElems; e++ {
			if PairScores(e) == nil {
				continue
			}
			for range 200 {
				c := randomTile(t, rng, e)
				c.dim = PairRow(e) * (1 + rng.IntN(max(4, 288/PairRow(e))))
				c.layHeads(t, rng, &Heads{N: 1})
				c.checkPairs(t, rng)
			}
		}
	})
}

func (c *tileCase) checkPairs(t *testing.T, rng *rand.Rand) {
	t.Helper()
	c.q = c.floats(t, rng, c.rows*c.dim)
	RoundWeights(c.q, len(c.q), 1, len(c.q), make([]float32, 1), make([]float32, 1))
	packed := guardedFloats(t, PairsLen(c.e, len(c.q)), c.atEnd)
	if !Pairs(c.e, packed, c.q) {
		t.Fatalf("%v: rounded queries are not taken", c)
	}
	c.canary()
	PairScores(c.e)(c.s, c.stride, packed, c.rows, c.dim, c.tile, Ahead{c.tile.Data, c.tile.Off, c.e.RowBytes(c.dim)})
	c.checkScores(t)
	c.checkCanary(t)

	h := &Heads{N: 1 + rng.IntN(4), First: 1 + rng.IntN(c.keys), Run: 1 + rng.IntN(20)}
	c.layHeads(t, rng, h)
	last := h.last()
	q := c.floats(t, rng, last.Rows+len(packed))
	for n := range h.N {
		head := c.floats(t, rng, len(c.q))
		RoundWeights(head, len(head), 1, len(head), make([]float32, 1), make([]float32, 1))
		if !Pairs(c.e, q[n*h.Rows:][:len(packed)], head) {
			t.Fatalf("%v: rounded queries are not taken", c)
		}
	}
	s := c.floats(t, rng, last.Scores+(c.rows-1)*c.stride+c.keys)
	want := append([]float32(nil), s...)
	for n := range h.N {
		PairScores(c.e)(want[n*h.Scores:], c.stride, q[n*h.Rows:], c.rows, c.dim, Tile{c.tile.Data[n*h.Pitch:], c.tile.Off}, Ahead{})
	}
	HeadsPairScores(c.e)(s, c.stride, q, c.rows, c.dim, c.tile, h, Ahead{})
	sameBits(t, fmt.Sprintf("%v heads %+v: scores", c, *h), s, want)
}

// TestPairs: what bfloat16 holds is packed, first in the lower half, and nothing else.
func TestPairs(t *testing.T) {
	q := []float32{1, -2.5, 0, math.Float32frombits(NegZero), leastPair, -mostPair}
	dst := make([]float32, len(q)/2)
	if !Pairs(BF16, dst, q) {
		t.Fatalf("%v is not taken", q)
	}
	for i, x := range dst {
		if got := []float32{math.Float32frombits(math.Float32bits(x) << 16), math.Float32frombits(math.Float32bits(x) &^ 0xffff)}; got[0] != q[2*i] || got[1] != q[2*i+1] {
			t.Errorf("pair %d is %v, want %v", i, got, q[2*i:2*i+2])
		}
	}
	inf := float32(math.Inf(1))
	for _, x := range []float32{1 + 0x1p-8, 0x1p-126, leastPair / 2, mostPair * 2, inf, -inf, float32(math.NaN())} {
		for at := range q {
			other := append([]float32(nil), q...)
			other[at] = x
			if Pairs(BF16, dst, other) {
				t.Errorf("%v at %d is taken", x, at)
			}
		}
	}
}
