//go:build unix

package simd

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// eachInteger runs f for each type that a level of assembly has fixed-point kernels for.
func eachInteger(t *testing.T, f func(t *testing.T, e Elem, kernels *Integer)) {
	atLevels(t, func(t *testing.T) {
		for e := range Elem(NumElems) {
			if kernels := IntegerKernels(e); kernels != nil {
				t.Run(e.String(), func(t *testing.T) { f(t, e, kernels) })
			} else if Level() == VNNI && (e == I8 || e == I4) {
				t.Errorf("level %s has no integer kernels for %v", VNNI, e)
			}
		}
	})
}

// integerCase is a tile of random codes, and queries for it.
type integerCase struct {
	tileCase
	digits []byte
}

func randomInteger(t *testing.T, rng *rand.Rand, e Elem) *integerCase {
	c := &integerCase{tileCase: tileCase{e: e, rows: 1 + rng.IntN(10), dim: 64 * (1 + rng.IntN(4)), keys: 1 + rng.IntN(TileKeys), atEnd: rng.IntN(2) == 0}}
	c.stride = c.keys + rng.IntN(5)
	size := e.RowBytes(c.dim)
	pitch := size + rng.IntN(2)*rng.IntN(70)
	c.tile = Tile{guarded(t, (c.keys-1)*pitch+size, c.atEnd), make([]int, c.keys)}
	for i := range c.tile.Data {
		c.tile.Data[i] = byte(rng.Uint32())
	}
	order := rng.Perm(c.keys)
	if rng.IntN(2) == 0 {
		slices.Sort(order)
	}
	for i, j := range order {
		c.tile.Off[i] = j * pitch
	}
	c.s = c.floats(t, rng, (c.rows-1)*c.stride+c.keys)
	c.q = c.floats(t, rng, c.rows*c.dim)
	c.alpha = c.floats(t, rng, c.rows)
	c.digits = guarded(t, c.rows*DigitsBytes(c.dim), c.atEnd)
	return c
}

// spread makes some rows of q hard to put in fixed point.
func (c *integerCase) spread(rng *rand.Rand) {
	for r := range c.rows {
		row := c.q[r*c.dim:][:c.dim]
		switch rng.IntN(6) {
		case 0:
			row[rng.IntN(c.dim)] *= 1000
		case 1:
			for i := range row {
				row[i] *= float32(math.Ldexp(1, rng.IntN(60)-30))
			}
		case 2:
			clear(row)
		case 3:
			for i := range row {
				row[i] *= 0x1p-140
			}
		case 4:
			for i := range row {
				row[i] *= 0x1p110
			}
		}
	}
}

// TestIntegerDigitsEqualPlain: digits and heads are the plain version's to the bit.
func TestIntegerDigitsEqualPlain(t *testing.T) {
	eachInteger(t, func(t *testing.T, e Elem, kernels *Integer) {
		rng := rand.New(rand.NewPCG(31, 32))
		plain := integerPlain(e)
		for range 200 {
			c := randomInteger(t, rng, e)
			c.spread(rng)
			want := make([]byte, len(c.digits))
			loss, wantLoss := kernels.toDigits(c.digits, c.q, c.rows, c.dim), plain.toDigits(want, c.q, c.rows, c.dim)
			pitch := DigitsBytes(c.dim)
			for r := range c.rows {
				got, want := c.digits[r*pitch:][:pitch], want[r*pitch:][:pitch]
				if !bytes.Equal(got[:digitsDown+4], want[:digitsDown+4]) || !bytes.Equal(got[digitsHead:], want[digitsHead:]) {
					t.Fatalf("%v: row %d is\n% x, want\n% x", c, r, got, want)
				}
			}
			if !close64(float64(loss), float64(wantLoss), float64(wantLoss)*1e-5+0x1p-149) {
				t.Fatalf("%v: loss %v, want %v", c, loss, wantLoss)
			}
			c.q[rng.IntN(len(c.q))] = []float32{float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())}[rng.IntN(3)]
			if most := kernels.Digits(c.digits, c.q, c.rows, c.dim); !(most < 0) {
				t.Fatalf("%v: a query is not finite, and scales up to %v are to serve", c, most)
			}
		}
	})
}

// TestIntegerScoresEqualPlain: to the bit, at any place in the tile, and no other
// element is touched.
func TestIntegerScoresEqualPlain(t *testing.T) {
	eachInteger(t, func(t *testing.T, e Elem, kernels *Integer) {
		rng := rand.New(rand.NewPCG(33, 34))
		plain := integerPlain(e)
		for i := range 200 {
			c := randomInteger(t, rng, e)
			c.spread(rng)
			c.canary()
			kernels.Digits(c.digits, c.q, c.rows, c.dim)
			scales := c.floats(t, rng, c.keys)
			if i%3 == 0 {
				scales = nil
			}
			want := make([]float32, len(c.s))
			ahead := Ahead{c.tile.Data, c.tile.Off, e.RowBytes(c.dim)}
			for _, most := range []float32{math.MaxFloat32, 1} {
				got := kernels.Scores(c.s, c.stride, c.digits, c.rows, c.dim, c.tile, scales, most, ahead)
				if want := plain.Scores(want, c.stride, c.digits, c.rows, c.dim, c.tile, scales, most, ahead); got != want {
					t.Fatalf("%v: scales up to %v serve: %v, want %v", c, most, got, want)
				}
				if !got {
					continue
				}
				for r := range c.rows {
					sameBits(t, fmt.Sprintf("%v: scores of row %d", c, r), c.s[r*c.stride:][:c.keys], want[r*c.stride:][:c.keys])
				}
			}
			c.checkCanary(t)
		}
	})
}

// TestIntegerScoresLoseLittle: a score is off by its query's loss and four roundings at
// most.
func TestIntegerScoresLoseLittle(t *testing.T) {
	eachInteger(t, func(t *testing.T, e Elem, kernels *Integer) {
		rng := rand.New(rand.NewPCG(35, 36))
		for range 100 {
			c := randomInteger(t, rng, e)
			c.rows = 1
			c.spread(rng)
			most := float64(kernels.Digits(c.digits, c.q, c.rows, c.dim))
			kernels.Scores(c.s, c.stride, c.digits, c.rows, c.dim, c.tile, nil, math.MaxFloat32, Ahead{})
			key := make([]float32, c.dim)
			for j, off := range c.tile.Off {
				Widen(key, e, c.tile.Data[off:])
				sum, size := 0.0, 0.0
				for d, k := range key {
					sum += float64(k) * float64(c.q[d])
					size += math.Abs(float64(k) * float64(c.q[d]))
				}
				if limit := size*0x1p-22 + scoreLoss/most; !close64(float64(c.s[j]), sum, limit+0x1p-149) {
					t.Fatalf("%v: score %d is %v, want %v ± %v", c, j, c.s[j], sum, limit)
				}
			}
		}
	})
}

// TestIntegerAccumulateEqualsPlain: to the last place, from o and where o is not read.
func TestIntegerAccumulateEqualsPlain(t *testing.T) {
	eachInteger(t, func(t *testing.T, e Elem, kernels *Integer) {
		rng := rand.New(rand.NewPCG(37, 38))
		plain := integerPlain(e)
		for range 200 {
			c := randomInteger(t, rng, e)
			c.weights(rng)
			c.canary()
			for r := range c.rows {
				if rng.IntN(3) == 0 {
					c.alpha[r] = 0
					c.q[r*c.dim+rng.IntN(c.dim)] = float32(math.NaN())
				}
			}
			want := slices.Clone(c.q)
			own := rng.IntN(2) == 0
			ahead := Ahead{c.tile.Data, c.tile.Off, e.RowBytes(c.dim)}
			done := kernels.Accumulate(c.q, c.rows, c.dim, c.s, c.stride, c.alpha, c.tile, own, ahead)
			if full := plain.Accumulate(want, c.rows, c.dim, c.s, c.stride, c.alpha, c.tile, own, ahead); done > full || done < full-3 {
				t.Fatalf("%v own=%v: %d rows are done, want %d or up to 3 fewer", c, own, done, full)
			}
			for i := range c.q[:done*c.dim] {
				if got := float64(c.q[i]); !close64(got, float64(want[i]), math.Abs(float64(want[i]))*0x1p-23) {
					t.Fatalf("%v: o[%d,%d] = %v, want %v", c, i/c.dim, i%c.dim, got, want[i])
				}
			}
		}
	})
}

// weights makes s weights, as a softmax does, of all sizes.
func (c *integerCase) weights(rng *rand.Rand) {
	for r := range c.rows {
		unit := math.Ldexp(1, []int{0, 0, 0, -40, -130, 96}[rng.IntN(6)])
		for j := range c.keys {
			c.s[r*c.stride+j] = float32(math.Exp(-rng.ExpFloat64()*3) * unit)
			if rng.IntN(8) == 0 {
				c.s[r*c.stride+j] = float32(math.Copysign(0, -1))
			}
		}
	}
}

// TestIntegerAccumulateLosesLittle: a sum is off by half of 2⁻²³ of the largest weight's
// power of two for each other key, and by three roundings.
func TestIntegerAccumulateLosesLittle(t *testing.T) {
	eachInteger(t, func(t *testing.T, e Elem, kernels *Integer) {
		rng := rand.New(rand.NewPCG(39, 40))
		for range 100 {
			c := randomInteger(t, rng, e)
			c.weights(rng)
			clear(c.alpha)
			if done := kernels.Accumulate(c.q, c.rows, c.dim, c.s, c.stride, c.alpha, c.tile, false, Ahead{}); done != c.rows {
				t.Fatalf("%v: %d rows are done", c, done)
			}
			value := make([]float32, c.dim)
			for r := range c.rows {
				weights := c.s[r*c.stride:][:c.keys]
				step := math.Ldexp(1, exponent(max(slices.Max(weights), leastWeight))-weightBits)
				sum, limit := make([]float64, c.dim), make([]float64, c.dim)
				for j, off := range c.tile.Off {
					Widen(value, e, c.tile.Data[off:])
					for d, v := range value {
						sum[d] += float64(weights[j]) * float64(v)
						limit[d] += math.Abs(float64(v)) * (step/2 + float64(weights[j])*0x1p-22)
					}
				}
				for d := range sum {
					if got := float64(c.q[r*c.dim+d]); !close64(got, sum[d], limit[d]) {
						t.Fatalf("%v: o[%d,%d] = %v, want %v ± %v", c, r, d, got, sum[d], limit[d])
					}
				}
			}
		}
	})
}

// TestIntegerAccumulateStops: at weights that fixed point does not hold, and at values
// that might be small beside what it loses. Then nothing has been written.
func TestIntegerAccumulateStops(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	eachInteger(t, func(t *testing.T, e Elem, kernels *Integer) {
		rng := rand.New(rand.NewPCG(41, 42))
		for i, bad := range []float32{inf, -inf, nan, -1, -0x1p-149, 0} {
			for range 20 {
				c := randomInteger(t, rng, e)
				c.weights(rng)
				row, key := rng.IntN(c.rows), rng.IntN(c.keys)
				c.s[row*c.stride+key] = bad
				own := bad == 0
				if own { // the row's largest weight is that of a small value
					c.s[row*c.stride+key] = 0x1p100
					value := c.tile.Data[c.tile.Off[key]:][:e.RowBytes(c.dim)]
					for d := range value {
						value[d] = map[Elem]byte{I8: 119, I4: 0x6a}[e] // 6 and −6
					}
				}
				before := slices.Clone(c.q)
				done := kernels.Accumulate(c.q, c.rows, c.dim, c.s, c.stride, c.alpha, c.tile, own, Ahead{})
				if done > row || !own && done != row/4*4 {
					t.Fatalf("%v, case %d: %d rows are done, the weights of row %d do not do", c, i, done, row)
				}
				sameBits(t, fmt.Sprintf("%v: rows that are not done", c), c.q[done*c.dim:], before[done*c.dim:])
			}
		}
	})
}
