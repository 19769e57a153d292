package simd

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestHiddenKeysAreNotRead: a score of −Inf leaves its key out of that row's sum
// and of no other, although its value is NaN.
func TestHiddenKeysAreNotRead(t *testing.T) {
	const rows, dim, keys, hiddenKey = 3, 40, 20, 7
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(17, 18))
		v := randomRows(rng, F16, keys, dim)
		nan := make([]float32, dim)
		for i := range nan {
			nan[i] = float32(math.NaN())
		}
		Narrow(v.Data[v.Off[hiddenKey]:], F16, nan)
		s, o := randomFloats(rng, rows*TileKeys), make([]float32, rows*dim)
		m, l, alpha := make([]float32, rows), make([]float32, rows), make([]float32, rows)
		for r := range m {
			m[r] = float32(math.Inf(-1))
		}
		s[0*TileKeys+hiddenKey] = m[0]
		for j := range keys {
			s[1*TileKeys+j] = m[1] // sees nothing
		}
		if !Softmax(s, TileKeys, rows, keys, m, l, alpha) {
			t.Fatal("hidden is false")
		}
		AccumulateVisible(F16, o, rows, dim, s, TileKeys, alpha, v, Ahead{})
		for d := range dim {
			if x := o[d]; x != x || x == 0 {
				t.Fatalf("row 0 element %d is %v", d, x)
			}
			if x := o[dim+d]; x != 0 {
				t.Fatalf("row 1, which sees nothing, has %v", x)
			}
			if x := o[2*dim+d]; x == x {
				t.Fatalf("row 2, which sees the NaN, has %v", x)
			}
		}
		if !math.IsInf(float64(m[1]), -1) || l[1] != 0 || alpha[1] != 0 {
			t.Fatalf("row 1's state is %v, %v, %v", m[1], l[1], alpha[1])
		}
	})
}

// TestNoAllocation: the steps of a tile allocate nothing.
func TestNoAllocation(t *testing.T) {
	const rows, dim = 7, 72
	for _, level := range Levels() {
		restore, err := SetLevel(level)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(19, 20))
		for e := F32; e < NumElems; e++ {
			tile := randomRows(rng, e, TileKeys, dim)
			s, q, o := make([]float32, rows*TileKeys), randomFloats(rng, rows*dim), make([]float32, rows*dim)
			m, l, alpha := make([]float32, rows), make([]float32, rows), make([]float32, rows)
			scores, accumulate := Scores(e), Accumulate(e)
			ahead := Ahead{tile.Data, tile.Off, e.RowBytes(dim)}
			if n := testing.AllocsPerRun(20, func() {
				scores(s, TileKeys, q, rows, dim, tile, ahead)
				Softmax(s, TileKeys, rows, TileKeys, m, l, alpha)
				accumulate(o, rows, dim, s, TileKeys, alpha, tile, ahead)
			}); n != 0 {
				t.Errorf("%s %v: %v allocations a tile", level, e, n)
			}
		}
		restore()
	}
}
