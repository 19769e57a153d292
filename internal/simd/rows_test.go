//go:build unix

package simd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// rowsTypes are the types that have a [RowsFunc] where any type has.
var rowsTypes = []Elem{F32, F16, BF16}

// TestRowsEqualFloat64: every type, lengths and numbers of rows, with data and x at either end of their memory and
// nothing written beside y.
func TestRowsEqualFloat64(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(23, 24))
		for _, e := range rowsTypes {
			kernel := Rows(e)
			if has := kernel != nil; has != useAVX2 {
				t.Fatalf("%v has a kernel: %t, want %t", e, has, useAVX2)
			}
			if kernel == nil {
				continue
			}
			for _, cols := range []int{RowStep, 2 * RowStep, 18 * RowStep, 33 * RowStep} {
				for _, rows := range []int{0, 1, 2, 7} {
					for _, atEnd := range []bool{false, true} {
						t.Run(fmt.Sprintf("%v/cols=%d/rows=%d/end=%t", e, cols, rows, atEnd), func(t *testing.T) {
							checkRows(t, rng, kernel, e, rows, cols, atEnd)
						})
					}
				}
			}
		}
	})
}

func checkRows(t *testing.T, rng *rand.Rand, kernel RowsFunc, e Elem, rows, cols int, atEnd bool) {
	numbers := make([]float32, rows*cols)
	for i := range numbers {
		numbers[i] = float32(rng.NormFloat64())
	}
	data, x := guarded(t, e.RowBytes(rows*cols), atEnd), guardedFloats(t, cols, atEnd)
	Narrow(data, e, numbers)
	Widen(numbers, e, data)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	checkProducts(t, rows, float64s(x), func(y []float32) { kernel(y, x, data) }, func(r int) []float32 {
		return numbers[r*cols : (r+1)*cols]
	})
}

// TestRowsPassNaNOn: an element that is NaN, or infinite beside an x of 0, spoils its own row alone.
func TestRowsPassNaNOn(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		for _, e := range rowsTypes {
			kernel := Rows(e)
			if kernel == nil {
				continue
			}
			const rows, cols = 3, 2 * RowStep
			for _, bad := range []float64{math.NaN(), math.Inf(1)} {
				numbers, x, y := make([]float32, rows*cols), make([]float32, cols), make([]float32, rows)
				numbers[cols+37] = float32(bad)
				data := make([]byte, e.RowBytes(rows*cols))
				Narrow(data, e, numbers)
				kernel(y, x, data)
				for r, v := range y {
					if (v != v) != (r == 1) {
						t.Errorf("%v: row %d is %v with %v in row 1", e, r, v, bad)
					}
				}
			}
		}
	})
}

// TestRowsCheckTheirData: too little data is a panic, not a read past its end.
func TestRowsCheckTheirData(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		for _, e := range rowsTypes {
			kernel := Rows(e)
			if kernel == nil {
				continue
			}
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%v: 2 rows were found in one and a part", e)
					}
				}()
				kernel(make([]float32, 2), make([]float32, RowStep), make([]byte, e.RowBytes(2*RowStep)-1))
			}()
		}
	})
}

// BenchmarkRows streams rows from memory on one goroutine, and reads the same bytes.
func BenchmarkRows(b *testing.B) {
	data := benchMemory(b, 256<<20)
	for _, level := range Levels()[1:] {
		for _, e := range rowsTypes {
			for _, cols := range []int{576, 1536, 4096} {
				b.Run(fmt.Sprintf("impl=%s/dtype=%v/cols=%d", level, e, cols), func(b *testing.B) {
					restore, err := SetLevel(level)
					if err != nil {
						b.Fatal(err)
					}
					defer restore()
					kernel := Rows(e)
					if kernel == nil {
						b.Skip("no kernel")
					}
					rows := len(data) / e.RowBytes(cols)
					x, y := make([]float32, cols), make([]float32, rows)
					b.SetBytes(int64(rows * e.RowBytes(cols)))
					for b.Loop() {
						kernel(y, x, data)
					}
				})
			}
		}
	}
}
