package gpu

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/flashdec/flashdec/gguf"
	"github.com/flashdec/flashdec/internal/network"
	"github.com/flashdec/flashdec/internal/nv"
)

// blockTypes are those whose rows stay in blocks.
var blockTypes = []gguf.Type{gguf.Q8_0, gguf.Q4_0, gguf.Q4_1, gguf.Q5_0, gguf.Q4_K, gguf.Q5_K, gguf.Q6_K}

const blockElements = 32 // of the smaller ones

// on runs f with steps of one matrix, which it puts on the device, and takes y from there.
func on(t *testing.T, d *Device, m *network.Matrix, y []float32, f func(s *steps, u *uploader, w *linear, y nv.Pointer) error) {
	t.Helper()
	err := d.ctx.Do(func() error {
		u := &uploader{d: d, w: &weights{memory: memory{ctx: d.ctx}}}
		defer u.w.free()
		s := &steps{memory: memory{ctx: d.ctx}, d: d, n: &network.Network{NormEps: 1e-5, EmbedScale: 1}, w: u.w}
		w := &linear{matrix: u.matrix(m, elemOf(m.Type))}
		to := put(u, y)
		return errors.Join(u.err, f(s, u, w, to), nv.Download(d.stream, y, to))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// blank makes 0 of the elements of all rows but those of the given places: of whole groups of 32, in the larger blocks by
// scales and minima of 0.
func blank(m *network.Matrix, keep func(i int) bool) {
	t, size := m.Type, m.Type.BlockBytes()
	for b := range len(m.Data) / size {
		block := m.Data[b*size:][:size]
		for g := range t.BlockElements() / blockElements {
			switch first := b * t.BlockElements() % m.Cols; {
			case keep(first + g*blockElements):
			case t == gguf.Q6_K:
				clear(block[192+2*g:][:2])
			case t.BlockElements() == blockElements:
				clear(block)
			case g < 4:
				block[4+g] &= 0xc0
				block[8+g] &= 0xc0
			default:
				block[8+g], block[g] = 0, block[g]&0x3f
				block[4+g] &= 0x3f
			}
		}
	}
}

// TestBlocksTakeAnyX: with an x whose blocks differ by many orders of magnitude, with outliers, zeros and the smallest
// numbers there are, a block's error is bounded by its own elements alone.
func TestBlocksTakeAnyX(t *testing.T) {
	d := open(t)
	rng := rand.New(rand.NewPCG(11, 12))
	const rows, blocks, n = 3, 24, 4
	const cols = blocks * blockElements
	x := make([]float32, n*cols)
	for i := range x {
		block := i % cols / blockElements
		x[i] = float32(rng.NormFloat64() * math.Pow(2, float64(block*9-130)))
		switch block {
		case 3:
			x[i] = 0
		case 5:
			x[i] = float32(i%blockElements) * math.SmallestNonzeroFloat32
		}
	}
	x[8*blockElements+7], x[20*blockElements+31] = 1e6, -math.MaxFloat32/1e8
	for _, of := range blockTypes {
		m, _ := stored(rng, rows, cols, of, false)
		// Each block by itself: the others' weights are 0.
		for block := range blocks {
			part := m
			part.Data = bytes.Clone(m.Data)
			blank(&part, func(i int) bool { return i/blockElements == block })
			values := make([][]float64, rows)
			for r := range values {
				values[r] = widened(of, part.Data[r*part.RowBytes():][:part.RowBytes()], cols)
			}
			y := make([]float32, n*rows)
			on(t, d, &part, y, func(s *steps, u *uploader, w *linear, y nv.Pointer) error {
				return s.multiply(&product{x: put(u, x), n: n, outputs: []output{{w, y}}})
			})
			for i := range y {
				token, row := i/rows, i%rows
				want, top, weight, size := 0.0, 0.0, 0.0, 0.0
				for c := range cols {
					if v := values[row][c]; c/blockElements != block && v != 0 {
						t.Fatalf("%v: element %d of row %d is %v, want 0", of, c, row, v)
					} else if v == 0 {
						continue
					}
					v, in := values[row][c], float64(x[token*cols+c])
					want, size = want+v*in, size+math.Abs(v*in)
					top, weight = max(top, math.Abs(in)), weight+math.Abs(v)
				}
				if limit := size*1e-6 + top*weight*0x1p-22 + weight*0x1p-99; !(math.Abs(float64(y[i])-want) <= limit) {
					t.Fatalf("%v, block %d, token %d, row %d: %v, want %v within %v", of, block, token, row, y[i], want, limit)
				}
			}
		}
	}
}

// TestBlocksPassNaNOn: what is not finite, or nearly so, in a token's x makes its products NaN, and no other token's.
func TestBlocksPassNaNOn(t *testing.T) {
	d := open(t)
	rng := rand.New(rand.NewPCG(13, 14))
	const rows, cols, n = 4, 256, 3
	for _, of := range blockTypes {
		m, _ := stored(rng, rows, cols, of, false)
		for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 2e38} {
			x, y := normal(rng, n*cols), make([]float32, n*rows)
			x[cols+3*blockElements+5] = float32(bad)
			on(t, d, &m, y, func(s *steps, u *uploader, w *linear, y nv.Pointer) error {
				return s.multiply(&product{x: put(u, x), n: n, outputs: []output{{w, y}}})
			})
			for i, got := range y {
				if isNaN := got != got; isNaN != (i/rows == 1) {
					t.Errorf("%v: with %v in the second of three tokens, row %d of token %d is %v", of, bad, i%rows, i/rows, got)
				}
			}
		}
	}
}

// TestEmbeddingsOfBlocks are what the file's rows widen to, bit by bit.
func TestEmbeddingsOfBlocks(t *testing.T) {
	d := open(t)
	rng := rand.New(rand.NewPCG(15, 16))
	const rows, cols = 9, 512
	for _, of := range blockTypes {
		m, values := stored(rng, rows, cols, of, false)
		ids, y := []int32{8, 0, 3}, make([]float32, 3*cols)
		on(t, d, &m, y, func(s *steps, u *uploader, w *linear, y nv.Pointer) error {
			s.w.embedding, s.tokens = w.matrix, len(ids)
			s.buffers.x, s.buffers.numbers = y, put(u, ids)
			return s.Embed()
		})
		for i, got := range y {
			if want := float32(values[ids[i/cols]][i%cols]); got != want {
				t.Fatalf("%v: element %d of token %d is %v, want %v", of, i%cols, ids[i/cols], got, want)
			}
		}
	}
}

// TestPackedRows: a row is as long as it says, and nothing is written behind it; of those types whose codes stay as they
// are, it is the codes of all blocks and then their scales.
func TestPackedRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 18))
	const cols = 512
	for _, of := range blockTypes {
		e, src := elemOf(of), randomBlocks(rng, of, cols/of.BlockElements())
		dst := bytes.Repeat([]byte{0xee}, e.rowBytes(cols)+5)
		if err := packRow(dst, matrix{elem: e, cols: cols}, src, of); err != nil {
			t.Fatal(err)
		}
		if row, behind := dst[:e.rowBytes(cols)], dst[e.rowBytes(cols):]; !bytes.Equal(behind, []byte{0xee, 0xee, 0xee, 0xee, 0xee}) {
			t.Errorf("%v: %x behind the row", of, behind)
		} else if of == gguf.Q8_0 || of == gguf.Q4_1 {
			var codes, scales []byte
			scale := blockLayouts[e].scales
			for b := src; len(b) > 0; b = b[of.BlockBytes():] {
				scales, codes = append(scales, b[:scale]...), append(codes, b[scale:of.BlockBytes()]...)
			}
			if !bytes.Equal(row, append(codes, scales...)) {
				t.Errorf("%v: packed\n%x", of, row)
			}
		}
	}
}

// TestKindsOfOneProduct: what shares a product is in blocks together or not at all, and what is multiplied in pairs is
// of one type.
func TestKindsOfOneProduct(t *testing.T) {
	for _, c := range []struct {
		types [3]gguf.Type
		want  [3]elem
	}{
		{[3]gguf.Type{gguf.Q8_0, gguf.Q4_1, gguf.Q4_0}, [3]elem{q8_0, q4_1, q4_0}},
		{[3]gguf.Type{gguf.Q4_0, gguf.F16, gguf.BF16}, [3]elem{f32, f16, bf16}},
		{[3]gguf.Type{gguf.Q4_K, gguf.Q5_0, gguf.Q6_K}, [3]elem{q4_K, q8_0, q6_K}},
		{[3]gguf.Type{gguf.Q5_1, gguf.Q4_0, gguf.Q4_0}, [3]elem{f32, f32, f32}},
	} {
		if got := oneKind(c.types[:]...); [3]elem(got) != c.want {
			t.Errorf("%v become %v, want %v", c.types, got, c.want)
		}
	}
	for _, c := range []struct {
		a, b gguf.Type
		want elem
	}{{gguf.Q4_0, gguf.Q4_0, q4_0}, {gguf.Q4_0, gguf.Q4_1, f32}, {gguf.F16, gguf.BF16, f32}, {gguf.BF16, gguf.BF16, bf16}} {
		if got := oneElem(c.a, c.b); got != c.want {
			t.Errorf("%v and %v become %v, want %v", c.a, c.b, got, c.want)
		}
	}
}
