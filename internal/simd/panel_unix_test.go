//go:build unix

package simd

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// panelShapes are numbers of the panel's rows, of elements, and of rows of x: whole strips and vectors, parts of
// these, and more than a pass takes at a time.
var panelShapes = [][3]int{
	{64, 64, 6}, {64, 576, 13}, {1, 1, 1}, {17, 33, 5}, {63, 7, 4}, {48, 128, 7}, {64, panelDepth + 1, 2}, {5, 2*panelDepth + 50, 8}, {0, 8, 3}, {8, 0, 3}, {8, 8, 0},
}

// eachPanel sets a panel to random rows of each type, between inaccessible pages, and gives them widened, too.
func eachPanel(t *testing.T, do func(t *testing.T, p *Panel, w []float32, rows, dim, n int)) {
	eachLevel(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(31, 32))
		p := new(Panel) // one for all: what it held before must be gone
		for _, shape := range panelShapes {
			rows, dim, n := shape[0], shape[1], shape[2]
			for e := F32; e <= BF16; e++ {
				t.Run(fmt.Sprintf("%v/rows=%d/dim=%d/n=%d", e, rows, dim, n), func(t *testing.T) {
					data, w := guarded(t, rows*e.RowBytes(dim), rng.IntN(2) == 0), make([]float32, rows*dim)
					tile := Tile{data, guardedInts(t, rows, true)}
					for j, at := range rng.Perm(rows) {
						tile.Off[j] = at * e.RowBytes(dim)
						Narrow(data[tile.Off[j]:], e, randomFloats(rng, dim))
						Widen(w[j*dim:(j+1)*dim], e, data[tile.Off[j]:])
					}
					p.Set(e, tile, dim)
					do(t, p, w, rows, dim, n)
				})
			}
			for b := range Block(NumBlocks) {
				if dim%b.Elements() != 0 {
					continue
				}
				t.Run(fmt.Sprintf("%v/rows=%d/dim=%d/n=%d", b, rows, dim, n), func(t *testing.T) {
					data, w := guarded(t, rows*b.RowBytes(dim), true), make([]float32, rows*dim)
					copy(data, randomBlocks(rng, b, rows*dim/b.Elements()))
					dequantiseGeneric(b, w, data)
					tile := Tile{Data: data}
					for j := range rows {
						tile.Off = append(tile.Off, j*b.RowBytes(dim))
					}
					p.SetBlocks(b, tile, dim)
					do(t, p, w, rows, dim, n)
				})
			}
		}
	})
}

// TestPanelEqualsFloat64: every type and level, buffers that end at an inaccessible page, and not an element beside.
func TestPanelEqualsFloat64(t *testing.T) {
	rng := rand.New(rand.NewPCG(33, 34))
	eachPanel(t, func(t *testing.T, p *Panel, w []float32, rows, dim, n int) {
		const guard = 12345
		stride := rows + rng.IntN(3)
		x, y := guardedFloats(t, n*dim, true), guardedFloats(t, max((n-1)*stride+rows, 0), true)
		copy(x, randomFloats(rng, n*dim))
		for i := range y {
			y[i] = guard
			if i%max(stride, 1) < rows {
				y[i] = float32(math.NaN()) // is written, not added to
			}
		}
		p.Multiply(y, stride, x, n)
		for i := range y {
			r, j := i/stride, i%stride
			if j >= rows {
				if y[i] != guard {
					t.Fatalf("beside row %d: %v was written", r, y[i])
				}
				continue
			}
			want, size := 0.0, 0.0
			for d, v := range w[j*dim : (j+1)*dim] {
				want += float64(v) * float64(x[r*dim+d])
				size += math.Abs(float64(v) * float64(x[r*dim+d]))
			}
			if !(math.Abs(float64(y[i])-want) <= size*0x1p-20) {
				t.Fatalf("y[%d,%d] is %v, want %v", r, j, y[i], want)
			}
		}
	})
}

// TestPanelRowsAreIndependent: a row's bits do not depend on the rows of x beside it, and what is not finite stays in
// its own row or column.
func TestPanelRowsAreIndependent(t *testing.T) {
	rng := rand.New(rand.NewPCG(35, 36))
	eachPanel(t, func(t *testing.T, p *Panel, w []float32, rows, dim, n int) {
		if rows == 0 || dim == 0 || n == 0 {
			return
		}
		x, y := randomFloats(rng, n*dim), make([]float32, n*rows)
		bad := rng.IntN(n)
		x[bad*dim+rng.IntN(dim)] = float32(math.NaN())
		p.Multiply(y, rows, x, n)
		alone := make([]float32, rows)
		for i := range n {
			if i == bad {
				for j, v := range y[i*rows : (i+1)*rows] {
					if v == v {
						t.Fatalf("y[%d,%d] is %v, want NaN", i, j, v)
					}
				}
				continue
			}
			p.Multiply(alone, rows, x[i*dim:], 1)
			sameBits(t, fmt.Sprintf("row %d", i), y[i*rows:(i+1)*rows], alone)
		}
	})
	eachLevel(t, func(t *testing.T) {
		const rows, dim, n, bad = 20, 40, 9, 7
		w, y := randomFloats(rng, rows*dim), make([]float32, n*rows)
		w[bad*dim+3] = float32(math.Inf(1))
		var tile Tile
		tile.Data = floatBytes(w)
		for j := range rows {
			tile.Off = append(tile.Off, 4*j*dim)
		}
		p := new(Panel)
		p.Set(F32, tile, dim)
		p.Multiply(y, rows, randomFloats(rng, n*dim), n)
		for i, v := range y {
			if finite := v-v == 0; finite == (i%rows == bad) {
				t.Errorf("y[%d,%d] is %v with infinity in row %d of the panel", i/rows, i%rows, v, bad)
			}
		}
	})
}

// TestFloatsAreLittleEndian: the kernels read elements as little-endian bytes, and so must widened rows lie.
func TestFloatsAreLittleEndian(t *testing.T) {
	if got := binary.LittleEndian.Uint32(floatBytes([]float32{1.5})); got != math.Float32bits(1.5) {
		t.Errorf("1.5 lies as %#x", got)
	}
}

// BenchmarkPanel makes panels, and multiplies rows of x with them.
func BenchmarkPanel(b *testing.B) {
	rng := rand.New(rand.NewPCG(37, 38))
	for _, level := range Levels() {
		for _, dim := range []int{64, 576, 1536} {
			const n = 48
			data, x, y := randomBlocks(rng, Q4_1, TileKeys*dim/BlockElements), randomFloats(rng, n*dim), make([]float32, n*TileKeys)
			tile := Tile{Data: data}
			for j := range TileKeys {
				tile.Off = append(tile.Off, j*Q4_1.RowBytes(dim))
			}
			p := new(Panel)
			for name, step := range map[string]func(){
				"set":      func() { p.SetBlocks(Q4_1, tile, dim) },
				"multiply": func() { p.Multiply(y, TileKeys, x, n) },
			} {
				b.Run(fmt.Sprintf("impl=%s/dim=%d/%s", level, dim, name), func(b *testing.B) {
					restore, err := SetLevel(level)
					if err != nil {
						b.Fatal(err)
					}
					defer restore()
					p.SetBlocks(Q4_1, tile, dim)
					for b.Loop() {
						step()
					}
					if name == "multiply" {
						b.ReportMetric(float64(n*dim*TileKeys)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "multiply-adds/ns")
					}
				})
			}
		}
	}
}
