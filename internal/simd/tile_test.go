package simd

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestTileStepEqualsDirect runs several tiles and compares with the softmax
// average in float64.
func TestTileStepEqualsDirect(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for e := F32; e < NumElems; e++ {
		const rows, dim, keys = 3, 33, 70
		k, v := randomRows(rng, e, keys, dim), randomRows(rng, e, keys, dim)
		q := randomFloats(rng, rows*dim)
		m, l, alpha := make([]float32, rows), make([]float32, rows), make([]float32, rows)
		o, s := make([]float32, rows*dim), make([]float32, rows*TileKeys)
		for r := range rows {
			m[r] = float32(math.Inf(-1))
			o[r*dim] = float32(math.NaN())
		}
		for j := 0; j < keys; j += TileKeys {
			n := min(TileKeys, keys-j)
			Scores(e)(s, TileKeys, q, rows, dim, Tile{k.Data, k.Off[j : j+n]}, Ahead{})
			Softmax(s, TileKeys, rows, n, m, l, alpha)
			Accumulate(e)(o, rows, dim, s, TileKeys, alpha, Tile{v.Data, v.Off[j : j+n]}, Ahead{})
		}
		for r := range rows {
			want := directAverage(e, q[r*dim:][:dim], k, v)
			for d := range dim {
				if got := float64(o[r*dim+d] / l[r]); !(math.Abs(got-want[d]) < 1e-5*8) {
					t.Fatalf("%v row %d element %d: %v, want %v", e, r, d, got, want[d])
				}
			}
		}
	}
}

func randomFloats(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// randomRows is n rows of type e, in an order of their own and at odd distances.
func randomRows(rng *rand.Rand, e Elem, n, dim int) Tile {
	size := e.RowBytes(dim)
	t := Tile{make([]byte, n*(size+3)), make([]int, n)}
	for i, j := range rng.Perm(n) {
		t.Off[i] = j * (size + 3)
		Narrow(t.Data[t.Off[i]:], e, randomFloats(rng, dim))
	}
	return t
}

func directAverage(e Elem, q []float32, k, v Tile) []float64 {
	row := make([]float32, len(q))
	l, o := 0.0, make([]float64, len(q))
	for j := range k.Off {
		Widen(row, e, k.Data[k.Off[j]:])
		s := 0.0
		for d, x := range row {
			s += float64(x) * float64(q[d])
		}
		p := math.Exp(s)
		l += p
		Widen(row, e, v.Data[v.Off[j]:])
		for d, x := range row {
			o[d] += p * float64(x)
		}
	}
	for d := range o {
		o[d] /= l
	}
	return o
}
