package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/flashdec/flashdec/gguf"
	"github.com/flashdec/flashdec/internal/network"
	"github.com/flashdec/flashdec/internal/simd"
)

// blockTypes are the types of weights, with the places of a block's binary16 numbers.
var blockTypes = map[gguf.Type][]int{
	gguf.F32: nil, gguf.F16: nil, gguf.BF16: nil,
	gguf.Q4_0: {0}, gguf.Q4_1: {0, 2}, gguf.Q5_0: {0}, gguf.Q5_1: {0, 2}, gguf.Q8_0: {0},
	gguf.Q4_K: {0, 2}, gguf.Q5_K: {0, 2}, gguf.Q6_K: {208},
}

// randomMatrix is a matrix of random numbers: of plain types normal ones, of quantised ones random codes
// with moderate scales.
func randomMatrix(rng *rand.Rand, t gguf.Type, rows, cols int) network.Matrix {
	m := network.Matrix{Rows: rows, Cols: cols, Type: t, Data: make([]byte, rows*t.RowBytes(cols))}
	if e, plain := elemOf(t); plain {
		for i := range rows * cols {
			size := t.BlockBytes()
			simd.Narrow(m.Data[i*size:(i+1)*size], e, []float32{float32(rng.NormFloat64())})
		}
		return m
	}
	for i := range m.Data {
		m.Data[i] = byte(rng.Uint32())
	}
	for block := 0; block < len(m.Data); block += t.BlockBytes() {
		for _, at := range blockTypes[t] {
			simd.Narrow(m.Data[block+at:block+at+2], simd.F16, []float32{float32(rng.NormFloat64()) / 16})
		}
	}
	return m
}

func randomVector(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// naive is x·Wᵀ + bias in float64, and the sum of the magnitudes of what it adds.
func naive(w *network.Linear, x []float32) (y, size []float64) {
	y, size = make([]float64, w.Outputs()), make([]float64, w.Outputs())
	row := make([]float32, w.Cols)
	for r := range w.Rows {
		readRow(row, &w.Matrix, r)
		for c, v := range row {
			out, in := r, c
			if w.ByColumns {
				out, in = c, r
			}
			y[out] += float64(v) * float64(x[in])
			size[out] += math.Abs(float64(v) * float64(x[in]))
		}
	}
	for i, b := range w.Bias {
		y[i] += float64(b)
	}
	return y, size
}

// TestProductEqualsNaive: every type, stored either way, any number of rows, sizes that fill no tile.
func TestProductEqualsNaive(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 8))
	c := newCrew(2, nil)
	defer c.close()
	for dtype := range blockTypes {
		for _, byColumns := range []bool{false, true} {
			if byColumns && dtype.BlockElements() > 1 {
				continue // the loader lets none in
			}
			for _, shape := range [][2]int{{1, 256}, {300, 512}, {70, 768}, {67, 33}, {5, 7}} {
				if shape[1]%dtype.BlockElements() != 0 {
					continue
				}
				for _, n := range []int{1, 3, 17, 2*rowsPerPart + 3} { // few rows, many, and many in parts
					if n > 17 && shape[0] > 100 {
						continue // slow to compute naively
					}
					t.Run(fmt.Sprintf("%v/columns=%t/%dx%d/n=%d", dtype, byColumns, shape[0], shape[1], n), func(t *testing.T) {
						w := &network.Linear{Matrix: randomMatrix(rng, dtype, shape[0], shape[1])}
						w.ByColumns = byColumns
						if n > 1 {
							w.Bias = randomVector(rng, w.Outputs())
						}
						checkProduct(t, c, w, n, randomVector(rng, n*w.Inputs()))
					})
				}
			}
		}
	}
}

func checkProduct(t *testing.T, c *crew, w *network.Linear, n int, x []float32) {
	y, beside := make([]float32, n*w.Outputs()), make([]float32, n*w.Outputs())
	c.multiply(n, product{w, x, y}, product{w, x, beside})
	share := 1e-6
	if c.takesVectors(w) && !c.takesPanels(n) {
		share = 1e-5 // of x, 16 bits are multiplied
	}
	for i := range n {
		want, size := naive(w, row(x, i, w.Inputs()))
		for o := range want {
			got := float64(y[i*w.Outputs()+o])
			if !(math.Abs(got-want[o]) <= share*(size[o]+1)) {
				t.Fatalf("row %d, output %d is %v, want %v", i, o, got, want[o])
			}
			if y[i*w.Outputs()+o] != beside[i*w.Outputs()+o] {
				t.Fatalf("row %d, output %d of the second product differs", i, o)
			}
		}
	}
}

// TestRowByRowIsIndependent: where a row's bits may not depend on the rows beside it, they do not, for any type.
func TestRowByRowIsIndependent(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	c := newCrew(2, nil)
	defer c.close()
	c.rowByRow = true
	for dtype := range blockTypes {
		const n, outputs, inputs = 2 * fewRows, 70, 512
		w := &network.Linear{Matrix: randomMatrix(rng, dtype, outputs, inputs)}
		x, y, alone := randomVector(rng, n*inputs), make([]float32, n*outputs), make([]float32, outputs)
		c.multiply(n, product{w, x, y})
		for i := range n {
			c.multiply(1, product{w, row(x, i, inputs), alone})
			if !slices.Equal(row(y, i, outputs), alone) {
				t.Errorf("%v: row %d of %d is not what it is alone", dtype, i, n)
			}
		}
	}
}

// TestTurnKeepsPairsTogether: the two orders of pairs are the same rotation of differently ordered heads,
// and it keeps each pair's length.
func TestTurnKeepsPairsTogether(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const dim = 8
	r, err := (&ropeConfig{Theta: 10000}).build(dim)
	if err != nil {
		t.Fatal(err)
	}
	cos, sin := make([]float32, dim/2), make([]float32, dim/2)
	angles(&r, cos, sin, 12345)
	apart := randomVector(rng, dim)
	together := make([]float32, dim)
	for i := range dim / 2 {
		together[2*i], together[2*i+1] = apart[i], apart[i+dim/2]
	}
	before := append([]float32(nil), apart...)
	turn(&r, apart, cos, sin)
	r.Adjacent = true
	turn(&r, together, cos, sin)
	for i := range dim / 2 {
		if apart[i] != together[2*i] || apart[i+dim/2] != together[2*i+1] {
			t.Errorf("pair %d is (%v, %v) and (%v, %v)", i, apart[i], apart[i+dim/2], together[2*i], together[2*i+1])
		}
		was := math.Hypot(float64(before[i]), float64(before[i+dim/2]))
		if is := math.Hypot(float64(apart[i]), float64(apart[i+dim/2])); math.Abs(is-was) > 1e-6 {
			t.Errorf("pair %d has length %v, want %v", i, is, was)
		}
		angle := math.Mod(12345*math.Pow(10000, -float64(2*i)/dim), 2*math.Pi)
		if c := float32(math.Cos(angle)); math.Abs(float64(c-cos[i])) > 1e-6 {
			t.Errorf("cosine %d is %v, want %v", i, cos[i], c)
		}
	}
}

// TestGates against their formulas.
func TestGates(t *testing.T) {
	g, u := []float32{-9, -1, 0, 0.5, 3, 9}, []float32{1, -8, 2, 0.25, 9, -1}
	want := map[network.Gate]func(g, u float64) float64{
		network.SiLU: func(g, u float64) float64 { return g / (1 + math.Exp(-g)) * u },
		network.GELU: func(g, u float64) float64 {
			return g / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(g+0.044715*g*g*g))) * u
		},
		network.Clamped: func(g, u float64) float64 {
			g = min(g, 7)
			return g / (1 + math.Exp(-1.702*g)) * (max(min(u, 7), -7) + 1)
		},
	}
	for k, f := range want {
		h := make([]float32, len(g))
		applyGate(k, h, g, u)
		for i := range g {
			if w := f(float64(g[i]), float64(u[i])); !(math.Abs(float64(h[i])-w) <= 1e-6*max(1, math.Abs(w))) {
				t.Errorf("gate %d of (%v, %v) is %v, want %v", k, g[i], u[i], h[i], w)
			}
		}
	}
}
