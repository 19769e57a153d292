//go:build unix

package simd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// TestRoundedSumsAreSums: sums of weights that bfloat16 holds have the bits of those of any
// weights, of one head, of several tiles, and of heads side by side however their keys are
// parted into stretches.
func TestRoundedSumsAreSums(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(41, 42))
		for e := F32; e < NumElems; e++ {
			if AccumulateRounded(e) == nil {
				continue
			}
			for range 200 {
				c := randomTile(t, rng, e)
				c.keys, c.dim = 1+rng.IntN(5*TileKeys), 32*(1+rng.IntN(9))
				if rng.IntN(8) == 0 {
					c.dim -= rng.IntN(32)
				}
				c.stride = c.keys + rng.IntN(3)
				c.layHeads(t, rng, &Heads{N: 1})
				c.checkRounded(t, rng, nil)
				c.keys, c.stride = min(c.keys, TileKeys), TileKeys
				h := &Heads{N: 1 + rng.IntN(4), First: 1 + rng.IntN(c.keys), Run: 1 + rng.IntN(20)}
				c.layHeads(t, rng, h)
				c.checkRounded(t, rng, h)
			}
		}
	})
}

func (c *tileCase) checkRounded(t *testing.T, rng *rand.Rand, h *Heads) {
	t.Helper()
	last, partial := h.last(), 0
	if h != nil {
		partial = h.Partial
	}
	o := c.floats(t, rng, last.Rows+partial+c.rows*c.dim)
	alpha := c.floats(t, rng, last.Alpha+c.rows)
	alpha[rng.IntN(len(alpha))] = 0
	p := c.floats(t, rng, last.Scores+(c.rows-1)*c.stride+c.keys)
	RoundWeights(p, len(p), 1, len(p), make([]float32, 1), make([]float32, 1))
	want := append([]float32(nil), o...)
	accumulateFor(c.e)(want, c.rows, c.dim, p, c.stride, alpha, c.tile, h, Ahead{})
	accumulateRoundedFor(c.e)(o, c.rows, c.dim, p, c.stride, alpha, c.tile, h, Ahead{c.tile.Data, c.tile.Off, 4096})
	n := len(o)
	if h != nil {
		n = partial
	}
	sameBits(t, fmt.Sprintf("%v heads %+v: sums", c, h), o[:n], want[:n])
}

// TestWeightsAreRoundedToNearest: of the numbers with 8 digits none lies nearer, every level does
// what plain Go does, and rows stay within their own.
func TestWeightsAreRoundedToNearest(t *testing.T) {
	special := []float32{0, math.Float32frombits(NegZero), 1, 0x1p-149, 0x1.fep-127, 1 + 0x1p-8, 1 + 0x3p-8, 0x1.fffffep-1, float32(math.NaN())}
	eachLevel(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(43, 44))
		for i := range 400 {
			rows, keys := 1+rng.IntN(9), 1+rng.IntN(3*TileKeys)
			stride := keys + rng.IntN(3)
			atEnd := i%2 == 0
			p, l, alpha := guardedFloats(t, (rows-1)*stride+keys, atEnd), guardedFloats(t, rows, atEnd), guardedFloats(t, rows, atEnd)
			for j := range p {
				p[j] = float32(math.Exp(-20 * rng.Float64()))
				if rng.IntN(100) == 0 {
					p[j] = special[rng.IntN(len(special))]
				}
			}
			for r := range rows {
				l[r], alpha[r] = rng.Float32(), float32(rng.IntN(3))/2
			}
			checkRounding(t, p, stride, rows, keys, l, alpha)
		}
	})
}

func checkRounding(t *testing.T, p []float32, stride, rows, keys int, l, alpha []float32) {
	t.Helper()
	before, sums := append([]float32(nil), p...), append([]float32(nil), l...)
	want, wantSums := append([]float32(nil), p...), append([]float32(nil), l...)
	RoundWeights(p, stride, rows, keys, l, alpha)
	roundWeightsGeneric(want, stride, rows, keys, wantSums, alpha)
	sameBits(t, "weights", p, want)
	for r := range rows {
		sum := float64(sums[r]) * float64(alpha[r])
		for _, x := range p[r*stride:][:keys] {
			sum += float64(x)
		}
		if !close64(float64(l[r]), sum, sum*0x1p-24*float64(1+keys)) {
			t.Fatalf("row %d of %d keys: the sum is %v, want %v", r, keys, l[r], sum)
		}
	}
	for j, x := range p {
		if j%stride >= keys {
			if math.Float32bits(x) != math.Float32bits(before[j]) {
				t.Fatalf("the gap after row %d was written", j/stride)
			}
			continue
		}
		if (x >= 0x1p-126 || x == 0) && (math.Float32bits(x)<<16 != 0 || math.Abs(float64(x)-float64(before[j])) > halfUnit8(before[j])) {
			t.Fatalf("%v became %v", before[j], x)
		}
	}
}

// halfUnit8 is half of the last of 8 digits of x.
func halfUnit8(x float32) float64 {
	_, exp := math.Frexp(float64(x))
	return math.Ldexp(1, max(exp-9, -134))
}
