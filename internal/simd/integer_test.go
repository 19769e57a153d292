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
	c := &integerCase{tileCase: tileCase{e: e, rows: 1 + rng.IntN(10), dim: 64 * (1 + rng.IntN(4)), keys: 1 + rng.IntN(3*TileKeys), atEnd: rng.IntN(2) == 0}}
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
			coarse, loss := kernels.toDigits(c.digits, c.q, c.rows, c.dim)
			wantCoarse, wantLoss := plain.toDigits(want, c.q, c.rows, c.dim)
			pitch := DigitsBytes(c.dim)
			for r := range c.rows {
				got, want := c.digits[r*pitch:][:pitch], want[r*pitch:][:pitch]
				if !bytes.Equal(got[:digitsDown+4], want[:digitsDown+4]) || !bytes.Equal(got[digitsHead:], want[digitsHead:]) {
					t.Fatalf("%v: row %d is\n% x, want\n% x", c, r, got, want)
				}
			}
			for _, l := range [][2]float32{{coarse, wantCoarse}, {loss, wantLoss}} {
				if !close64(float64(l[0]), float64(l[1]), float64(l[1])*1e-5+0x1p-149) {
					t.Fatalf("%v: losses %v and %v, want %v and %v", c, coarse, loss, wantCoarse, wantLoss)
				}
			}
			c.q[rng.IntN(len(c.q))] = []float32{float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())}[rng.IntN(3)]
			if reach := kernels.Digits(c.digits, c.q, c.rows, c.dim); !(reach.coarse < 0 && reach.fine < 0) {
				t.Fatalf("%v: a query is not finite, and scales up to %+v are to serve", c, reach)
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
				scales = scales[:0]
			}
			want := make([]float32, len(c.s))
			ahead := []Ahead{{}, {c.tile.Data, c.tile.Off, e.RowBytes(c.dim)}}[i%2] // who fetches nothing may take other kernels
			for _, reach := range []Reach{{math.MaxFloat32, -1}, {-1, math.MaxFloat32}, {1, math.MaxFloat32}, {-1, 1}, {0.5, 1}} {
				left, wantLeft := reach, reach
				kernels.Scores(c.s, c.stride, c.q, c.digits, c.rows, c.dim, c.tile, scales, &left, ahead)
				plain.Scores(want, c.stride, c.q, c.digits, c.rows, c.dim, c.tile, scales, &wantLeft, ahead)
				if left != wantLeft {
					t.Fatalf("%v: within %+v leaves %+v, want %+v", c, reach, left, wantLeft)
				}
				for r := range c.rows {
					sameBits(t, fmt.Sprintf("%v: scores of row %d", c, r), c.s[r*c.stride:][:c.keys], want[r*c.stride:][:c.keys])
				}
			}
			c.checkCanary(t)
		}
	})
}

// TestIntegerScoresLoseLittle: a score is off by its query's loss, of the digits that it takes,
// and a few roundings at most.
func TestIntegerScoresLoseLittle(t *testing.T) {
	eachInteger(t, func(t *testing.T, e Elem, kernels *Integer) {
		rng := rand.New(rand.NewPCG(35, 36))
		for range 100 {
			c := randomInteger(t, rng, e)
			c.rows = 1
			c.spread(rng)
			reach := kernels.Digits(c.digits, c.q, c.rows, c.dim)
			for _, x := range []struct {
				most, loss float32
				only       Reach
			}{{reach.coarse, coarseLoss, Reach{math.MaxFloat32, -1}}, {reach.fine, scoreLoss, Reach{-1, math.MaxFloat32}}} {
				kernels.Scores(c.s, c.stride, c.q, c.digits, c.rows, c.dim, c.tile, nil, &x.only, Ahead{})
				key := make([]float32, c.dim)
				for j, off := range c.tile.Off {
					Widen(key, e, c.tile.Data[off:])
					sum, size := 0.0, 0.0
					for d, k := range key {
						sum += float64(k) * float64(c.q[d])
						size += math.Abs(float64(k) * float64(c.q[d]))
					}
					if limit := size*0x1.4p-22 + float64(x.loss)/float64(x.most); !close64(float64(c.s[j]), sum, limit+0x1p-149) {
						t.Fatalf("%v: score %d is %v, want %v ± %v", c, j, c.s[j], sum, limit)
					}
				}
			}
		}
	})
}

// TestIntegerAccumulateEqualsPlain: to the last place, from o and where o is not read, in
// two digits and in three.
func TestIntegerAccumulateEqualsPlain(t *testing.T) {
	eachInteger(t, func(t *testing.T, e Elem, kernels *Integer) {
		rng := rand.New(rand.NewPCG(37, 38))
		plain := integerPlain(e)
		for i := range 300 {
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
			scales, most := c.valueScales(rng), c.most([]float32{float32(math.Inf(1)), -1}[i%2])
			ahead, first := Ahead{c.tile.Data, c.tile.Off, e.RowBytes(c.dim)}, rng.IntN(1<<26)
			kernels.Accumulate(c.q, c.rows, c.dim, c.s, c.stride, c.alpha, c.tile, scales, most, first, ahead)
			plain.Accumulate(want, c.rows, c.dim, c.s, c.stride, c.alpha, c.tile, scales, most, first, ahead)
			for i := range c.q {
				if got := float64(c.q[i]); !close64(got, float64(want[i]), math.Abs(float64(want[i]))*0x1p-23) {
					t.Fatalf("%v: o[%d,%d] = %v, want %v", c, i/c.dim, i%c.dim, got, want[i])
				}
			}
		}
	})
}

// valueScales are those of the tile's values, or none.
func (c *integerCase) valueScales(rng *rand.Rand) []float32 {
	scales := make([]float32, c.keys)
	if rng.IntN(2) == 0 {
		return scales[:0]
	}
	for j := range scales {
		scales[j] = float32(math.Ldexp(1, rng.IntN(20)-10))
		for r := range c.rows {
			c.s[r*c.stride+j] *= scales[j]
		}
	}
	return scales
}

// most is the same for all rows.
func (c *integerCase) most(x float32) []float32 { return slices.Repeat([]float32{x}, c.rows) }

// TestIntegerAccumulateTakesTwoDigits: where all of a block's largest weights, without their
// scales, are at most most, to the bit.
func TestIntegerAccumulateTakesTwoDigits(t *testing.T) {
	eachInteger(t, func(t *testing.T, e Elem, kernels *Integer) {
		rng := rand.New(rand.NewPCG(43, 44))
		for range 200 {
			c := randomInteger(t, rng, e).oneTile()
			c.weights(rng)
			clear(c.alpha)
			for j := range c.keys { // codes of full size
				c.tile.Data[c.tile.Off[j]] = 0x7f
			}
			scales := c.valueScales(rng)
			most := make([]float32, c.rows)
			for r := range most {
				row := c.s[r*c.stride:][:c.keys]
				first := slices.Index(row, slices.Max(row))
				most[r] = row[first]
				if len(scales) > 0 {
					most[r] /= scales[first]
				}
			}
			sum := func(most []float32) []float32 {
				o := make([]float32, c.rows*c.dim)
				kernels.Accumulate(o, c.rows, c.dim, c.s, c.stride, c.alpha, c.tile, scales, most, 5, Ahead{})
				return o
			}
			light, heavy := sum(c.most(float32(math.Inf(1)))), sum(c.most(-1))
			sameBits(t, fmt.Sprintf("%v: none is above", c), sum(most), light)
			above := rng.IntN(c.rows)
			most[above] = most[above]*0.999 - 0x1p-100
			got := sum(most)
			for r := range c.rows {
				want := light
				if first := above / 4 * 4; r >= first && r < first+4 {
					want = heavy
				}
				sameBits(t, fmt.Sprintf("%v: row %d, with row %d above", c, r, above), got[r*c.dim:][:c.dim], want[r*c.dim:][:c.dim])
			}
		}
	})
}

// TestIntegerAccumulateCountsTiles: tiles are rounded by their numbers, whether one call takes them or one each, and
// if three digits are taken of one between them. Full tiles that are alike in all else differ by it.
func TestIntegerAccumulateCountsTiles(t *testing.T) {
	eachInteger(t, func(t *testing.T, e Elem, kernels *Integer) {
		rng := rand.New(rand.NewPCG(47, 48))
		for i := range 100 {
			c := randomInteger(t, rng, e)
			clear(c.alpha)
			for j := range c.s {
				c.s[j] = rng.Float32() / 4
			}
			if i%2 == 0 && c.keys > TileKeys {
				for r := range c.rows {
					c.s[r*c.stride+TileKeys] = 1
				}
			}
			first, most := rng.IntN(1<<26), c.most(0.5)
			sum := func(step int, number func(tile int) int) []float32 {
				o, alpha := make([]float32, c.rows*c.dim), c.alpha
				for done := 0; done < c.keys; done += step {
					tile := Tile{c.tile.Data, c.tile.Off[done:min(done+step, c.keys)]}
					kernels.Accumulate(o, c.rows, c.dim, c.s[done:], c.stride, alpha, tile, nil, most, number(done/TileKeys), Ahead{})
					alpha = slices.Repeat([]float32{1}, c.rows)
				}
				return o
			}
			counted := sum(TileKeys, func(tile int) int { return first + tile })
			sameBits(t, fmt.Sprintf("%v: at once", c), sum(c.keys, func(int) int { return first }), counted)
			if c.keys >= TileKeys && slices.Equal(counted, sum(TileKeys, func(tile int) int { return first + tile + 1 })) {
				t.Fatalf("%v: tiles from %d on are as those from %d on", c, first, first+1)
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

// TestIntegerAccumulateLosesLittle: a sum in three digits is off by half of 1/(2²⁴ − 2) of the
// largest weight for each key, one in two digits by 1/65534 of it, and both by three roundings.
func TestIntegerAccumulateLosesLittle(t *testing.T) {
	eachInteger(t, func(t *testing.T, e Elem, kernels *Integer) {
		rng := rand.New(rand.NewPCG(39, 40))
		for i := range 200 {
			c := randomInteger(t, rng, e).oneTile()
			c.weights(rng)
			clear(c.alpha)
			light := i%2 == 0
			most := c.most(-1)
			if light {
				most = c.most(float32(math.Inf(1)))
			}
			kernels.Accumulate(c.q, c.rows, c.dim, c.s, c.stride, c.alpha, c.tile, nil, most, i, Ahead{})
			value := make([]float32, c.dim)
			for r := range c.rows {
				weights := c.s[r*c.stride:][:c.keys]
				top := max(slices.Max(weights), leastWeight)
				off := float64(top) / float64(largestWeight(3)) / 2
				if light {
					off = float64(top) / float64(largestWeight(2))
				}
				sum, limit := make([]float64, c.dim), make([]float64, c.dim)
				for j, at := range c.tile.Off {
					Widen(value, e, c.tile.Data[at:])
					for d, v := range value {
						sum[d] += float64(weights[j]) * float64(v)
						limit[d] += math.Abs(float64(v)) * (off + float64(weights[j])*0x1p-22)
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

// TestIntegerAccumulateKeepsSmallWeights: beside one large weight, any number of small ones that
// are alike come to what they are in all, within four units of two digits, however small.
func TestIntegerAccumulateKeepsSmallWeights(t *testing.T) {
	eachInteger(t, func(t *testing.T, e Elem, kernels *Integer) {
		rng := rand.New(rand.NewPCG(45, 46))
		for range 200 {
			c := randomInteger(t, rng, e).oneTile()
			clear(c.alpha)
			for i := range c.tile.Data { // codes of 1
				c.tile.Data[i] = map[Elem]byte{I8: 1, I4: 0x11}[e]
			}
			small := float32(rng.ExpFloat64()) / largestWeight(2)
			for r := range c.rows {
				row := c.s[r*c.stride:][:c.keys]
				for j := range row {
					row[j] = small
				}
				row[rng.IntN(c.keys)] = 1
			}
			kernels.Accumulate(c.q, c.rows, c.dim, c.s, c.stride, c.alpha, c.tile, nil, c.most(1), rng.IntN(64), Ahead{})
			want := 1 + float64(small)*float64(c.keys-1)
			for i, got := range c.q {
				if !close64(float64(got), want, 4.0/float64(largestWeight(2))) {
					t.Fatalf("%v: o[%d] is %v, want %v: small weights of %v are off by %v units", c, i, got, want, small, (float64(got)-want)*float64(largestWeight(2)))
				}
			}
		}
	})
}

// TestIntegerAccumulateStops: before a tile with weights that fixed point does not hold, or values
// that might be small beside what it loses. Of that tile nothing has been written.
func TestIntegerAccumulateStops(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	eachInteger(t, func(t *testing.T, e Elem, kernels *Integer) {
		rng := rand.New(rand.NewPCG(41, 42))
		for i, bad := range []float32{inf, -inf, nan, -1, -0x1p-149, 0} {
			for range 20 {
				c := randomInteger(t, rng, e)
				c.weights(rng)
				rows := kernels.block(c.rows)
				row, key := rng.IntN(rows), rng.IntN(c.keys)
				c.s[row*c.stride+key] = bad
				var scales []float32
				if bad == 0 { // the row's largest weight is that of a small value
					c.s[row*c.stride+key] = 0x1p100
					value := c.tile.Data[c.tile.Off[key]:][:e.RowBytes(c.dim)]
					for d := range value {
						value[d] = map[Elem]byte{I8: 119, I4: 0x6a}[e] // 6 and −6
					}
					scales = unscaled[:c.keys]
				}
				most, want := c.most(inf), slices.Clone(c.q)
				sums := []integerSums{kernels.light, kernels.heavy}[rng.IntN(2)]
				done := sums(c.q, rows, c.dim, c.s, c.stride, c.alpha, c.tile, scales, most, 5, Ahead{})
				if first := key / TileKeys * TileKeys; done > first || scales == nil && done != first {
					t.Fatalf("%v, case %d: %d keys are done, the weight of key %d does not do", c, i, done, key)
				}
				if done > 0 {
					sums(want, rows, c.dim, c.s, c.stride, c.alpha, Tile{c.tile.Data, c.tile.Off[:done]}, scales, most, 5, Ahead{})
				}
				sameBits(t, fmt.Sprintf("%v: done are %d keys", c, done), c.q, want)
			}
		}
	})
}

// TestAheadIsSharedByKeys: what is listed may be more or fewer than keys. Whatever is done of these, all of it is
// fetched once, in order, and evenly.
func TestAheadIsSharedByKeys(t *testing.T) {
	for _, listed := range []int{0, 1, 7, 64, 300} {
		all := Ahead{Off: make([]int, listed), Bytes: 64}
		for i := range all.Off {
			all.Off[i] = i
		}
		for keys := 1; keys < 200; keys += 13 {
			for done := 0; done <= keys; done++ {
				until, after := all.Part(0, done, keys), all.Part(done, keys, keys)
				if got := append(slices.Clone(until.Off), after.Off...); !slices.Equal(got, all.Off) {
					t.Fatalf("%d of %d keys: %v and %v", done, keys, until.Off, after.Off)
				}
				if n := len(until.Off); n != listed*done/keys {
					t.Fatalf("%d of %d keys: %d of %d are fetched", done, keys, n, listed)
				}
			}
		}
	}
}

// unscaled is scales of 1.
var unscaled = slices.Repeat([]float32{1}, 3*TileKeys)

// oneTile leaves the case a tile's keys, if it has more.
func (c *integerCase) oneTile() *integerCase {
	c.keys = min(c.keys, TileKeys)
	c.tile.Off = c.tile.Off[:c.keys]
	return c
}
