package simd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// TestVectorIsAsExactAsFloat32: an x whose blocks differ by many orders of magnitude, with outliers,
// zeros and the smallest numbers there are. A block's error is bounded by its own elements alone.
func TestVectorIsAsExactAsFloat32(t *testing.T) {
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

// checkSum multiplies a row by x.
func checkSum(t *testing.T, rng *rand.Rand, b Block, x []float32) {
	t.Helper()
	n := len(x) / BlockElements
	data, w := randomBlocks(rng, b, len(x)/b.Elements()), make([]float32, len(x))
	dequantiseGeneric(b, w, data)
	want, limit := 0.0, 0.0
	for block := range n {
		top, weight := 0.0, 0.0
		for i := block * BlockElements; i < (block+1)*BlockElements; i++ {
			want += float64(w[i]) * float64(x[i])
			limit += 1e-6 * math.Abs(float64(w[i])*float64(x[i]))
			top, weight = max(top, math.Abs(float64(x[i]))), weight+math.Abs(float64(w[i]))
		}
		limit += top*weight*0x1p-23 + weight*0x1p-126
	}
	var y [1]float32
	Dot(b)(y[:], vector(x, b), data)
	if !(math.Abs(float64(y[0])-want) <= limit) {
		t.Errorf("%v, %d blocks: %v, want %v, at most %v off", b, n, y[0], want, limit)
	}
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
