package simd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// inFixedPoint is what kernels at the current level make of x: itself, or multiples of its lanes' units, and of the
// units of what these leave if x is uneven. Numbers from 2¹¹⁹ on have none.
func inFixedPoint(x []float32) []float64 {
	if !fixes() || slices.Max(x) >= 0x1p119 || slices.Min(x) <= -0x1p119 {
		return float64s(x)
	}
	rest := make([]float32, len(x))
	y := inUnits(rest, x)
	if uneven(x) {
		for i, v := range inUnits(make([]float32, len(x)), rest) {
			y[i] += v
		}
	}
	return y
}

// inUnits is x in multiples of its lanes' units; rest is what these leave.
func inUnits(rest, x []float32) []float64 {
	leave(rest, x)
	y := float64s(x)
	for i := range y {
		y[i] -= float64(rest[i])
	}
	return y
}

func float64s(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

// TestFixedPointLosesLittle: an element is off by a 64000th of the largest of its eight at most, and the largest stays
// in range, whatever its bits.
func TestFixedPointLosesLittle(t *testing.T) {
	rng := rand.New(rand.NewPCG(19, 20))
	for range 20000 {
		x := make([]float32, BlockElements)
		exponent := rng.IntN(245) - 126
		for i := range x {
			x[i] = float32(math.Ldexp(rng.Float64()*2-1, exponent))
		}
		y := inFixedPoint(x)
		for lane := range lanesOfBlock {
			top, unit := float64(largestOf(x, lane)), float64(unitOf(x, lane))
			for i := range laneElements {
				at := inLane(lane, i)
				if off := math.Abs(y[at] - float64(x[at])); !(off <= top/64000+0x1p-127) || math.Abs(y[at]) >= 32639.5*unit {
					t.Fatalf("%v is %v, in eight up to %v", x[at], y[at], top)
				}
			}
		}
	}
}

// TestVectorKeepsBlocksApart: an x whose blocks differ by many orders of magnitude, with outliers,
// zeros and the smallest numbers there are. A block's error is bounded by its own elements alone.
func TestVectorKeepsBlocksApart(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(11, 12))
		const blocks = 24
		x := make([]float32, blocks*BlockElements)
		for i := range x {
			x[i] = float32(rng.NormFloat64() * math.Pow(2, float64(i/BlockElements*9-130)))
			switch i / BlockElements {
			case 3:
				x[i] = 0
			case 5:
				x[i] = float32(i%BlockElements) * math.SmallestNonzeroFloat32
			}
		}
		x[8*BlockElements+7], x[20*BlockElements+31] = 1e6, -math.MaxFloat32/1e8
		for b := range Block(NumBlocks) {
			for first := range blocks {
				for _, n := range []int{1, 3, 8, blocks} {
					part := x[first*BlockElements : min(first+n, blocks)*BlockElements]
					if part = part[:len(part)/b.Elements()*b.Elements()]; len(part) > 0 {
						checkSum(t, rng, b, part)
					}
				}
			}
		}
	})
}

// checkSum multiplies a row by x, and holds the sum to that of x in fixed point.
func checkSum(t *testing.T, rng *rand.Rand, b Block, x []float32) {
	t.Helper()
	data, w := randomBlocks(rng, b, len(x)/b.Elements()), make([]float32, len(x))
	dequantiseGeneric(b, w, data)
	want, limit, fixed := 0.0, 0.0, inFixedPoint(x)
	for block := 0; block < len(x); block += BlockElements {
		top, weight := 0.0, 0.0
		for i := block; i < block+BlockElements; i++ {
			want += float64(w[i]) * fixed[i]
			limit += 1e-6 * math.Abs(float64(w[i])*fixed[i])
			top, weight = max(top, math.Abs(fixed[i])), weight+math.Abs(float64(w[i]))
		}
		limit += top*weight*0x1p-23 + weight*0x1p-126 // codes are unsigned before what is in them too much is taken off
	}
	var y [1]float32
	Dot(b)(y[:], vector(x, b), data)
	if !(math.Abs(float64(y[0])-want) <= limit) {
		t.Errorf("%v, %d elements: %v, want %v, at most %v off", b, len(x), y[0], want, limit)
	}
}

// TestVectorTakesHugeNumbers: up to where products leave float32, with others beside them.
func TestVectorTakesHugeNumbers(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(21, 22))
		for _, b := range []Block{Q4_0, Q4_1, Q8_0, Q5_0, Q5_1} {
			for _, huge := range []float32{0x1p118, -0x1p119, 0x1p120} {
				x := make([]float32, 7*BlockElements)
				for i := range x {
					x[i] = float32(rng.NormFloat64()) * 0x1p110
				}
				x[4*BlockElements+9] = huge
				checkSum(t, rng, b, x)
			}
		}
	})
}

// TestVectorPassesInfinityOn: what is not finite in x comes out as in float64, and is gone with the next x.
func TestVectorPassesInfinityOn(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(13, 14))
		const rows, blocks = 8, 6
		for b := range Block(NumBlocks) {
			data, v := randomBlocks(rng, b, rows*blocks), new(Vector)
			w := make([]float32, rows*blocks*b.Elements())
			dequantiseGeneric(b, w, data)
			for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0} {
				const at = 3*BlockElements + 5
				x, y := make([]float32, blocks*b.Elements()), make([]float32, rows)
				x[at] = float32(bad)
				v.Set(x, b)
				Dot(b)(y, v, data)
				for r, got := range y {
					want := float64(w[r*len(x)+at]) * bad
					if float64(got) != want && (got == got || want == want) {
						t.Errorf("%v: with %v in x, row %d is %v, want %v", b, bad, r, got, want)
					}
				}
			}
		}
	})
}

// TestVectorForgets: a Vector that is set again, shorter, longer or on another level, holds nothing of
// what it held.
func TestVectorForgets(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 16))
	v, nan := new(Vector), make([]float32, 12*BlockElements)
	for i := range nan {
		nan[i] = float32(math.NaN())
	}
	for _, blocks := range []int{9, 2, 1, 0, 24, 30, 8, 3} {
		eachLevel(t, func(t *testing.T) {
			x := make([]float32, blocks*BlockElements)
			for i := range x {
				x[i] = float32(rng.NormFloat64())
			}
			v.Set(nan, Q4_1, Q8_0)
			v.Set(x, Q8_0, Q4_1, Q8_0)
			for f := range v.forms {
				if there := v.forms[f].chunks != nil; v.Len() != len(x) || there != (fixes() && blocks > 0) {
					t.Errorf("%d blocks: %d elements, form %d: %v", blocks, v.Len(), f, there)
				}
			}
			for b := range Block(NumBlocks) {
				if len(x)%b.Elements() != 0 {
					continue
				}
				data := randomBlocks(rng, b, 2*len(x)/b.Elements())
				again, first := make([]float32, 2), make([]float32, 2)
				Dot(b)(again, v, data)
				Dot(b)(first, vector(x, b), data)
				if again[0] != first[0] || again[1] != first[1] {
					t.Errorf("%v, %d blocks: %v, the first time %v", b, blocks, again, first)
				}
			}
		})
	}
}

// BenchmarkVector sets vectors of a model's sizes.
func BenchmarkVector(b *testing.B) {
	for _, of := range []Block{Q4_1, Q8_0} {
		for _, n := range []int{576, 1536, 4096} {
			b.Run(fmt.Sprintf("type=%v/len=%d", of, n), func(b *testing.B) {
				x, v := make([]float32, n), new(Vector)
				for b.Loop() {
					v.Set(x, of)
				}
			})
		}
	}
}

// TestVectorTakesUnevenTwice: what shares a unit with an outlier keeps its digits, however large the outlier is and
// however little the weights that it meets.
func TestVectorTakesUnevenTwice(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(23, 24))
		for b := range Block(NumBlocks) {
			for _, outlier := range []float32{1e2, 1e4, 1e6} {
				const rows, n = 300, 768 // more rows than meet the rest at a time
				x := make([]float32, n)
				for i := range x {
					x[i] = float32(rng.NormFloat64())
				}
				x[100], x[613] = outlier, -outlier
				if !uneven(x) {
					t.Fatalf("an outlier of %v is not seen", outlier)
				}
				data, w := randomBlocks(rng, b, rows*n/b.Elements()), make([]float32, rows*n)
				dequantiseGeneric(b, w, data)
				y := make([]float32, rows)
				Dot(b)(y, vector(x, b), data)
				for r, got := range y {
					want, limit := 0.0, 0.0
					for i, v := range x {
						p := float64(w[r*n+i]) * float64(v)
						want, limit = want+p, limit+1e-6*math.Abs(p)+math.Abs(float64(w[r*n+i]))*float64(outlier)*0x1p-24
					}
					if !(math.Abs(float64(got)-want) <= limit) {
						t.Fatalf("%v, outliers of %v: row %d is %v, want %v, at most %v off", b, outlier, r, got, want, limit)
					}
				}
			}
		}
	})
}

// TestUnevenIsWhatFewElementsDwarf: normal numbers and tails as heavy as a gate's are even, one outlier is not.
func TestUnevenIsWhatFewElementsDwarf(t *testing.T) {
	rng := rand.New(rand.NewPCG(25, 26))
	for _, c := range []struct {
		n       int
		outlier float32
		want    bool
	}{{64, 0, false}, {64, 30, true}, {576, 30, false}, {576, 100, true}, {4096, 100, false}, {4096, 1000, true}} {
		x := make([]float32, c.n)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		if c.outlier > 0 {
			x[c.n/3] = c.outlier
		}
		if got := uneven(x); got != c.want {
			t.Errorf("%d normal numbers and %v: uneven is %v", c.n, c.outlier, got)
		}
	}
	for _, x := range [][]float32{{}, make([]float32, 64)} {
		if uneven(x) {
			t.Errorf("%d zeros are uneven", len(x))
		}
	}
}
