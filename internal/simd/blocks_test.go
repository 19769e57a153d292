package simd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// numbersOf says where each layout has binary16 numbers.
var numbersOf = [NumBlocks][]int{Q4_0: {0}, Q4_1: {0, 2}, Q8_0: {0}, Q5_0: {0}, Q5_1: {0, 2}, Q4_K: {0, 2}, Q5_K: {0, 2}, Q6_K: {208}}

// randomBlocks is rows of blocks with random codes and moderate scales.
func randomBlocks(rng *rand.Rand, b Block, n int) []byte {
	data := make([]byte, n*b.Bytes())
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	for at := 0; at < len(data); at += b.Bytes() {
		for _, number := range numbersOf[b] {
			Narrow(data[at+number:at+number+2], F16, []float32{float32(rng.NormFloat64())})
		}
	}
	return data
}

// vector is x as kernels of blocks b take it.
func vector(x []float32, b Block) *Vector {
	v := new(Vector)
	v.Set(x, b)
	return v
}

// eachLevel runs f at every level of this CPU.
func eachLevel(t *testing.T, f func(t *testing.T)) {
	for _, level := range Levels() {
		t.Run(level, func(t *testing.T) {
			restore, err := SetLevel(level)
			if err != nil {
				t.Fatal(err)
			}
			defer restore()
			f(t)
		})
	}
}

// TestDotEqualsFloat64: with x as the level has it, every layout and level, odd and even numbers of blocks and rows, with the data at
// the end of its memory and nothing written beside y.
func TestDotEqualsFloat64(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(3, 4))
		for b := range Block(NumBlocks) {
			for _, blocks := range []int{1, 2, 3, 18, 33} {
				for _, rows := range []int{0, 1, 2, 7} {
					t.Run(fmt.Sprintf("%v/blocks=%d/rows=%d", b, blocks, rows), func(t *testing.T) {
						checkDot(t, rng, b, rows, blocks)
					})
				}
			}
		}
	})
}

func checkDot(t *testing.T, rng *rand.Rand, b Block, rows, blocks int) {
	data := randomBlocks(rng, b, rows*blocks)
	x, row := make([]float32, blocks*b.Elements()), make([]float32, blocks*b.Elements())
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	checkProducts(t, rows, inFixedPoint(x), func(y []float32) { Dot(b)(y, vector(x, b), data) }, func(r int) []float32 {
		dequantiseGeneric(b, row, data[r*blocks*b.Bytes():])
		return row
	})
}

// checkProducts holds products of rows with x against float64, and sees that nothing is written behind them.
func checkProducts(t *testing.T, rows int, x []float64, multiply func(y []float32), row func(r int) []float32) {
	t.Helper()
	const guard = 12345
	y := make([]float32, rows+1)
	y[rows] = guard
	multiply(y[:rows])
	for r := range rows {
		want, size := 0.0, 0.0
		for c, v := range row(r) {
			want += float64(v) * x[c]
			size += math.Abs(float64(v) * x[c])
		}
		if !(math.Abs(float64(y[r])-want) <= 1e-6*size) {
			t.Errorf("row %d is %v, want %v", r, y[r], want)
		}
	}
	if y[rows] != guard {
		t.Errorf("y was written past its end: %v", y[rows])
	}
}

// TestDequantiseEqualsPlain: bit for bit, NaN where NaN is, and not a byte beside.
func TestDequantiseEqualsPlain(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(7, 8))
		for b := range Block(NumBlocks) {
			for _, blocks := range []int{0, 1, 2, 7} {
				data := randomBlocks(rng, b, blocks)
				if blocks > 2 { // any bits, also those of subnormals, infinities and NaN
					data[0], data[1], data[b.Bytes()], data[b.Bytes()+1] = 1, 0, 0, 0x7c
					data[2*b.Bytes()], data[2*b.Bytes()+1] = 1, 0x7e
				}
				const guard = 12345
				got, want := make([]float32, blocks*b.Elements()+1), make([]float32, blocks*b.Elements())
				got[len(want)] = guard
				Dequantise(b, got[:len(want)], data)
				dequantiseGeneric(b, want, data)
				for i, w := range want {
					if math.Float32bits(got[i]) != math.Float32bits(w) && (got[i] == got[i] || w == w) {
						t.Fatalf("%v, %d blocks: element %d is %v, want %v", b, blocks, i, got[i], w)
					}
				}
				if got[len(want)] != guard {
					t.Errorf("%v, %d blocks: dst was written past its end: %v", b, blocks, got[len(want)])
				}
			}
		}
	})
}

// TestDotPassesNaNOn: a scale that is NaN or infinite spoils its own row alone.
func TestDotPassesNaNOn(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(5, 6))
		for b := range Block(NumBlocks) {
			const rows, blocks = 3, 5
			data := randomBlocks(rng, b, rows*blocks)
			for _, number := range numbersOf[b] {
				at := (1*blocks+3)*b.Bytes() + number
				data[at], data[at+1] = 0, 0x7e
			}
			x, y := make([]float32, blocks*b.Elements()), make([]float32, rows)
			for i := range x {
				x[i] = 1
			}
			Dot(b)(y, vector(x, b), data)
			for r, v := range y {
				if (v != v) != (r == 1) {
					t.Errorf("%v: row %d is %v with a NaN in row 1", b, r, v)
				}
			}
		}
	})
}

// TestDotChecksItsData: too little data is a panic, not a read past its end.
func TestDotChecksItsData(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		for b := range Block(NumBlocks) {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%v: 2 rows of one block were found in one block and a part", b)
					}
				}()
				Dot(b)(make([]float32, 2), vector(make([]float32, b.Elements()), b), make([]byte, 2*b.Bytes()-1))
			}()
		}
	})
}

// BenchmarkDot streams rows of 2048 elements from memory on one goroutine.
func BenchmarkDot(b *testing.B) {
	for _, level := range Levels() {
		for q := range Block(NumBlocks) {
			b.Run(fmt.Sprintf("impl=%s/type=%v", level, q), func(b *testing.B) {
				restore, err := SetLevel(level)
				if err != nil {
					b.Fatal(err)
				}
				defer restore()
				const cols, rows = 2048, 32 << 10
				data := make([]byte, rows*q.RowBytes(cols))
				for i := range data {
					data[i] = 1
				}
				x, y, dot := vector(make([]float32, cols), q), make([]float32, rows), Dot(q)
				b.SetBytes(int64(len(data)))
				for b.Loop() {
					dot(y, x, data)
				}
			})
		}
	}
}
