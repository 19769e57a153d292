//go:build unix

package simd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// tileCase is one call's shape, with every buffer against an inaccessible page.
type tileCase struct {
	e                       Elem
	rows, dim, keys, stride int
	atEnd                   bool // which side the inaccessible page is on
	tile                    Tile // keys or values
	s                       []float32
	q                       []float32
	alpha                   []float32
}

func (c *tileCase) String() string {
	return fmt.Sprintf("%v rows=%d dim=%d keys=%d stride=%d atEnd=%v", c.e, c.rows, c.dim, c.keys, c.stride, c.atEnd)
}

var oddDims = []int{1, 7, 8, 33, 59, 64, 80, 111, 128, 256, 576}

func randomTile(t *testing.T, rng *rand.Rand, e Elem) *tileCase {
	c := &tileCase{e: e, rows: 1 + rng.IntN(19), dim: 1 + rng.IntN(70), keys: 1 + rng.IntN(TileKeys), atEnd: rng.IntN(2) == 0}
	if rng.IntN(2) == 0 {
		c.dim = oddDims[rng.IntN(len(oddDims))]
	}
	c.stride = c.keys + rng.IntN(5)
	size := e.RowBytes(c.dim)
	pitch := size + rng.IntN(4)
	data := guarded(t, (c.keys-1)*pitch+size, c.atEnd)
	for i := range data {
		data[i] = 0x7f // NaN in most types: what no row holds must not be used
	}
	c.tile = Tile{data, guardedInts(t, c.keys, c.atEnd)}
	order := rng.Perm(c.keys)
	if rng.IntN(3) == 0 {
		slices.Sort(order) // evenly spaced, and perhaps adjacent
	}
	for i, j := range order {
		c.tile.Off[i] = j * pitch
		Narrow(data[j*pitch:], e, randomFloats(rng, c.dim))
		if e == I4 && c.dim%2 == 1 {
			data[j*pitch+size-1] |= 0x70 // the half that no element owns
		}
	}
	c.s = c.floats(t, rng, (c.rows-1)*c.stride+c.keys)
	c.q = c.floats(t, rng, c.rows*c.dim)
	c.alpha = c.floats(t, rng, c.rows)
	return c
}

func (c *tileCase) floats(t *testing.T, rng *rand.Rand, n int) []float32 {
	x := guardedFloats(t, n, c.atEnd)
	copy(x, randomFloats(rng, n))
	return x
}

// canary fills the gaps between rows of s.
func (c *tileCase) canary() {
	for i := range c.s {
		if i%c.stride >= c.keys {
			c.s[i] = float32(math.NaN())
		}
	}
}

func (c *tileCase) checkCanary(t *testing.T) {
	t.Helper()
	for i, x := range c.s {
		if i%c.stride >= c.keys && x == x {
			t.Fatalf("%v: the gap after row %d was written", c, i/c.stride)
		}
	}
}

func TestScoresAtEveryLevel(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(3, 4))
		for e := F32; e < NumElems; e++ {
			for range 150 {
				c := randomTile(t, rng, e)
				c.canary()
				Scores(e)(c.s, c.stride, c.q, c.rows, c.dim, c.tile, Ahead{c.tile.Data, c.tile.Off, e.RowBytes(c.dim)})
				c.checkScores(t)
				c.checkCanary(t)
			}
		}
	})
}

// checkScores compares with the sums in float64; the error of a float32 sum is
// below its terms' magnitudes times 2⁻²³ times its length, in practice its root.
func (c *tileCase) checkScores(t *testing.T) {
	t.Helper()
	key := make([]float32, c.dim)
	for j, off := range c.tile.Off {
		Widen(key, c.e, c.tile.Data[off:])
		for r := range c.rows {
			sum, size := 0.0, 0.0
			for d, k := range key {
				x := float64(k) * float64(c.q[r*c.dim+d])
				sum, size = sum+x, size+math.Abs(x)
			}
			if got := c.s[r*c.stride+j]; !close64(float64(got), sum, size*0x1p-21+0x1p-149) {
				t.Fatalf("%v: s[%d,%d] = %v, want %v", c, r, j, got, sum)
			}
		}
	}
}

// close64 compares NaN and infinite positions before any tolerance.
func close64(got, want, tolerance float64) bool {
	if math.IsNaN(want) || math.IsInf(want, 0) {
		return math.IsNaN(want) == math.IsNaN(got) && (math.IsNaN(want) || got == want)
	}
	return math.Abs(got-want) <= tolerance
}

func TestAccumulateAtEveryLevel(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(5, 6))
		for e := F32; e < NumElems; e++ {
			for range 150 {
				c := randomTile(t, rng, e)
				c.canary()
				for r := range c.rows {
					if rng.IntN(3) == 0 { // a row that starts: what o holds is not read
						c.alpha[r] = math.Float32frombits(uint32(rng.IntN(2)) << 31) // 0 or −0
						c.q[r*c.dim+rng.IntN(c.dim)] = float32(math.NaN())
					}
				}
				before := append([]float32(nil), c.q...)
				Accumulate(e)(c.q, c.rows, c.dim, c.s, c.stride, c.alpha, c.tile, Ahead{c.tile.Data, c.tile.Off, e.RowBytes(c.dim)})
				c.checkSums(t, before)
			}
		}
	})
}

// A row's bits do not depend on the rows that are computed with it.
func TestRowsAreIndependentAtEveryLevel(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(23, 24))
		for e := F32; e < NumElems; e++ {
			for range 30 {
				c := randomTile(t, rng, e)
				o := append([]float32(nil), c.q...)
				weights := append([]float32(nil), c.s...)
				Scores(e)(c.s, c.stride, c.q, c.rows, c.dim, c.tile, Ahead{})
				Accumulate(e)(o, c.rows, c.dim, weights, c.stride, c.alpha, c.tile, Ahead{})
				s := make([]float32, c.keys)
				for r := range c.rows {
					q := c.q[r*c.dim:][:c.dim]
					Scores(e)(s, c.keys, q, 1, c.dim, c.tile, Ahead{})
					sameBits(t, fmt.Sprintf("%v: scores of row %d", c, r), c.s[r*c.stride:][:c.keys], s)
					alone := append([]float32(nil), q...)
					Accumulate(e)(alone, 1, c.dim, weights[r*c.stride:], c.stride, c.alpha[r:], c.tile, Ahead{})
					sameBits(t, fmt.Sprintf("%v: sums of row %d", c, r), o[r*c.dim:][:c.dim], alone)
				}
			}
		}
	})
}

func (c *tileCase) checkSums(t *testing.T, before []float32) {
	t.Helper()
	n := c.rows * c.dim
	sum, size := make([]float64, n), make([]float64, n)
	for i, x := range before {
		if a := c.alpha[i/c.dim]; a != 0 {
			sum[i] = float64(x) * float64(a)
			size[i] = math.Abs(sum[i])
		}
	}
	value := make([]float32, c.dim)
	for j, off := range c.tile.Off {
		Widen(value, c.e, c.tile.Data[off:])
		for i := range sum {
			x := float64(c.s[i/c.dim*c.stride+j]) * float64(value[i%c.dim])
			sum[i], size[i] = sum[i]+x, size[i]+math.Abs(x)
		}
	}
	for i := range sum {
		if !close64(float64(c.q[i]), sum[i], size[i]*0x1p-21) {
			t.Fatalf("%v: o[%d,%d] = %v, want %v", c, i/c.dim, i%c.dim, c.q[i], sum[i])
		}
	}
}

// One special element shows in the sums that it belongs to and in no other.
func TestSpecialElementsAtEveryLevel(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(7, 8))
		for e := F32; e <= E5M2; e++ {
			for i := range 120 {
				c := randomTile(t, rng, e)
				special := []float64{math.NaN(), math.Inf(1), math.Inf(-1), -math.NaN(), 0x1p-140}[i%5]
				at := c.tile.Off[rng.IntN(c.keys)] + rng.IntN(c.dim)*e.Bits()/8
				Narrow(c.tile.Data[at:], e, []float32{float32(special)})
				weights := append([]float32(nil), c.s...)
				Scores(e)(c.s, c.stride, c.q, c.rows, c.dim, c.tile, Ahead{})
				c.checkScores(t)
				copy(c.s, weights)
				before := append([]float32(nil), c.q...)
				Accumulate(e)(c.q, c.rows, c.dim, c.s, c.stride, c.alpha, c.tile, Ahead{})
				c.checkSums(t, before)
			}
		}
	})
}

// Every code of 16 bits and fewer, at every place of a vector, through a kernel:
// the value of one key of one element repeated under a weight of 1 is itself.
func TestEveryCodeAtEveryLevel(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		for e := F16; e < NumElems; e++ {
			codes := 1 << e.Bits()
			src := make([]byte, e.RowBytes(codes))
			want, got := make([]float32, codes), make([]float32, codes)
			for i := range codes {
				switch {
				case e.Bits() == 16:
					src[2*i], src[2*i+1] = byte(i), byte(i>>8)
				case e.Bits() == 8:
					src[i] = byte(i)
				default:
					src[i/2] |= byte(i) << (i % 2 * 4)
				}
			}
			widenGeneric(want, e, src)
			Accumulate(e)(got, 1, codes, []float32{1}, 1, []float32{0}, Tile{src, []int{0}}, Ahead{})
			for i := range want {
				if got[i] != want[i] && (got[i] == got[i] || want[i] == want[i]) {
					t.Fatalf("%v code %#x: %v, want %v", e, i, got[i], want[i])
				}
			}
		}
	})
}

func TestSoftmaxAtEveryLevel(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(9, 10))
		inf := math.Inf(1)
		for i := range 3000 {
			rows, keys, atEnd := 1+rng.IntN(35), 1+rng.IntN(5*TileKeys), i%2 == 0
			stride := keys + rng.IntN(4)
			n := (rows-1)*stride + keys
			s, m, l, alpha := guardedFloats(t, n, atEnd), guardedFloats(t, rows, atEnd), guardedFloats(t, rows, atEnd), guardedFloats(t, rows, atEnd)
			scale := []float32{1, 10, 100, 1e30}[rng.IntN(4)]
			for j, x := range randomFloats(rng, n) {
				s[j] = x * scale
			}
			for r := range rows {
				m[r], l[r] = float32(rng.NormFloat64())*scale, 1
				if rng.IntN(3) == 0 {
					m[r], l[r] = float32(-inf), 0
				}
				if rng.IntN(3) == 0 {
					for j := range keys {
						if rng.IntN(2) == 0 {
							s[r*stride+j] = float32(-inf)
						}
					}
				}
				switch rng.IntN(10) {
				case 0:
					s[r*stride+rng.IntN(keys)] = float32(math.NaN())
				case 1:
					s[r*stride+rng.IntN(keys)] = float32(inf)
				case 2:
					m[r] = float32(math.NaN())
				case 3:
					for j := range keys {
						s[r*stride+j] = float32(-inf)
					}
				}
			}
			checkSoftmax(t, s, stride, rows, keys, m, l, alpha)
		}
	})
}

func checkSoftmax(t *testing.T, s []float32, stride, rows, keys int, m, l, alpha []float32) {
	t.Helper()
	clone := func(x []float32) []float32 { return append([]float32(nil), x...) }
	ws, wm, wl, wa := clone(s), clone(m), clone(l), clone(alpha)
	want := softmaxGeneric(ws, stride, rows, keys, wm, wl, wa)
	if got := Softmax(s, stride, rows, keys, m, l, alpha); got != want {
		t.Fatalf("hidden is %v, want %v", got, want)
	}
	same := func(name string, i int, got, want float32, ulps float64) {
		t.Helper()
		// Subnormal weights may be off by one unit of their own.
		if !close64(float64(got), float64(want), math.Abs(float64(want))*0x1p-24*2*ulps+0x1p-149) || math.Signbit(float64(got)) != math.Signbit(float64(want)) && want == want {
			t.Fatalf("%s[%d] = %v, want %v (rows %d keys %d)", name, i, got, want, rows, keys)
		}
	}
	for r := range rows {
		same("m", r, m[r], wm[r], 0)
		same("alpha", r, alpha[r], wa[r], 2)
		same("l", r, l[r], wl[r], 8*float64(1+keys/TileKeys))
		for j := range keys {
			same("p", r*stride+j, s[r*stride+j], ws[r*stride+j], 2)
		}
	}
	for i := range s {
		if i%stride >= keys && s[i] != ws[i] {
			t.Fatalf("the gap after row %d was written", i/stride)
		}
	}
}
