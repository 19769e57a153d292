package gpu

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/flashdec/flashdec/cuda"
	"github.com/flashdec/flashdec/gguf"
	"github.com/flashdec/flashdec/internal/network"
	"github.com/flashdec/flashdec/internal/nv"
)

// open opens the first GPU; without one it skips, or fails where FLASHDEC_REQUIRE lists cuda.
func open(t *testing.T) *Device {
	t.Helper()
	g, err := cuda.Open(cuda.Options{})
	if err != nil {
		if slices.Contains(strings.Split(os.Getenv("FLASHDEC_REQUIRE"), ","), "cuda") {
			t.Fatalf("FLASHDEC_REQUIRE=cuda: %v", err)
		}
		t.Skip(err)
	}
	d, err := New(g)
	if err != nil {
		t.Fatal(errors.Join(err, g.Close()))
	}
	t.Cleanup(func() {
		if err := errors.Join(d.Close(), g.Close()); err != nil {
			t.Error(err)
		}
	})
	return d
}

// stored is a random matrix as a file has it, and its values.
func stored(rng *rand.Rand, rows, cols int, of gguf.Type, byColumns bool) (network.Matrix, [][]float64) {
	m := network.Matrix{Rows: rows, Cols: cols, Type: of, ByColumns: byColumns}
	values := make([][]float64, rows)
	if of.BlockElements() > 1 {
		for r := range values {
			row := randomBlocks(rng, of, cols/of.BlockElements())
			m.Data = append(m.Data, row...)
			values[r] = widened(of, row, cols)
		}
		return m, values
	}
	for r := range values {
		for range cols {
			bits := math.Float32bits(float32(rng.NormFloat64()) / 4)
			switch of {
			case gguf.F32:
				m.Data = binary.LittleEndian.AppendUint32(m.Data, bits)
			case gguf.BF16:
				bits &= 0xffff0000
				m.Data = binary.LittleEndian.AppendUint16(m.Data, uint16(bits>>16))
			case gguf.F16: // a power of two with its sign
				bits = bits&0x80000000 | (127-bits>>9&3)<<23
				m.Data = binary.LittleEndian.AppendUint16(m.Data, uint16(bits>>16&0x8000|(bits>>23&0xff-112)<<10))
			}
			values[r] = append(values[r], float64(math.Float32frombits(bits)))
		}
	}
	return m, values
}

// randomBlocks are codes of all values, with scales and minima that differ by up to 16 times in size and by sign.
func randomBlocks(rng *rand.Rand, of gguf.Type, n int) []byte {
	data := make([]byte, n*of.BlockBytes())
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	for b := data; len(b) > 0; b = b[of.BlockBytes():] {
		for _, i := range halvesOf[of].places {
			binary.LittleEndian.PutUint16(b[2*i:], uint16(rng.UintN(2)<<15|uint(halvesOf[of].exponent+rng.IntN(4))<<10|rng.UintN(1<<10)))
		}
	}
	return data
}

// halvesOf are the places of a block's f16 numbers, and the least of their exponents, by how large codes are.
var halvesOf = map[gguf.Type]struct {
	places   []int
	exponent int
}{
	gguf.Q8_0: {[]int{0}, 3}, gguf.Q4_0: {[]int{0}, 8}, gguf.Q4_1: {[]int{0, 1}, 8}, gguf.Q5_0: {[]int{0}, 7},
	gguf.Q4_K: {[]int{0, 1}, 2}, gguf.Q5_K: {[]int{0, 1}, 1}, gguf.Q6_K: {[]int{104}, 1},
}

// widened are a row's elements.
func widened(of gguf.Type, row []byte, cols int) []float64 {
	narrow, wide := make([]float32, cols), make([]float64, cols)
	if err := of.Dequantise(narrow, row); err != nil {
		panic(err)
	}
	for i, x := range narrow {
		wide[i] = float64(x)
	}
	return wide
}

// TestProducts: y = W·norm(x) in all its forms, of sizes that fill no load, no row of shared memory and no block,
// is what float64 makes of it, for rows that our kernels take and for those that cuBLAS does.
func TestProducts(t *testing.T) {
	d := open(t)
	rng := rand.New(rand.NewPCG(1, 2))
	for _, of := range []gguf.Type{gguf.F32, gguf.F16, gguf.BF16, gguf.Q8_0, gguf.Q4_0, gguf.Q4_1, gguf.Q4_K, gguf.Q5_K, gguf.Q6_K} {
		sizes := [][2]int{{1, 1}, {2, 7}, {5, 31}, {33, 256}, {40, 577}, {129, 1000}, {700, 264}}
		switch of.BlockElements() {
		case 256:
			sizes = [][2]int{{1, 256}, {40, 768}, {129, 1024}, {19, 2304}}
		case 32:
			sizes = [][2]int{{1, 32}, {2, 64}, {5, 96}, {33, 512}, {40, 576}, {129, 1024}, {700, 288}, {19, 4160}}
		}
		for _, size := range sizes {
			for _, n := range []int{1, 2, 3, 4, 7, 19} {
				for _, f := range []finish{store, add, gated} {
					t.Run(fmt.Sprintf("%v/%dx%d/n=%d/finish=%d", of, size[0], size[1], n, f), func(t *testing.T) {
						checkProduct(t, d, rng, of, size[0], size[1], n, f)
					})
				}
			}
		}
	}
}

// TestWidenedInParts: a matrix of f16 that cuBLAS gets in parts, because its rows in float32 do not fit the room
// for them.
func TestWidenedInParts(t *testing.T) {
	d := open(t)
	const cols = 2000
	checkProduct(t, d, rand.New(rand.NewPCG(1, 2)), gguf.F16, scratchBytes/(4*cols)+300, cols, fewRows+1, add)
}

func checkProduct(t *testing.T, d *Device, rng *rand.Rand, of gguf.Type, rows, cols, n int, f finish) {
	byColumns := rng.IntN(2) == 0 && of.BlockElements() == 1
	normed, softcap := rng.IntN(2) == 0, 0.0
	if f == store && rng.IntN(2) == 0 {
		softcap = 1.5
	}
	var matrices [2]network.Matrix
	var values [2][][]float64
	for i := range matrices {
		if byColumns {
			m, v := stored(rng, cols, rows, of, true)
			matrices[i], values[i] = m, transposed(v)
		} else {
			matrices[i], values[i] = stored(rng, rows, cols, of, false)
		}
	}
	x, weight, bias, y := normal(rng, n*cols), normal(rng, cols), normal(rng, rows), normal(rng, n*rows)
	got := slices.Clone(y)
	const eps = 1e-5
	err := d.ctx.Do(func() error {
		u := &uploader{d: d, w: &weights{memory: memory{ctx: d.ctx}}}
		defer u.w.free()
		s := &steps{memory: memory{ctx: d.ctx}, d: d, n: &network.Network{NormEps: eps, Gate: network.GELU, MLPSize: rows, HiddenSize: cols}, w: u.w}
		defer s.free()
		b := &s.buffers
		p := &product{x: put(u, x), n: n, finish: f, softcap: softcap}
		if normed {
			p.norm = put(u, weight)
		}
		place := put(u, y)
		for i := range matrices {
			w := &linear{u.matrix(&matrices[i], elemOf(of)), put(u, bias)}
			p.outputs = append(p.outputs, output{w, place})
			if f != gated {
				break
			}
			place, u.w.head = put(u, y), *w
		}
		u.w.head = *p.outputs[0].w
		err := errors.Join(u.err, u.done())
		for _, r := range []struct {
			to    *nv.Pointer
			bytes int
		}{{&b.h, 4 * n * cols}, {&b.high, 2 * n * cols}, {&b.low, 2 * n * cols}, {&b.scratch, s.scratchBytes()}} {
			var failed error
			*r.to, failed = s.take(r.bytes)
			err = errors.Join(err, failed)
		}
		if err != nil {
			return err
		}
		return errors.Join(s.multiply(p), nv.Download(d.stream, got, p.outputs[0].y))
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		in := make([]float64, cols)
		squares := 0.0
		for c := range in {
			in[c] = float64(x[i*cols+c])
			squares += in[c] * in[c]
		}
		if normed {
			for c := range in {
				in[c] *= float64(weight[c]) / math.Sqrt(squares/float64(cols)+eps)
			}
		}
		for r := range rows {
			sums, size := [2]float64{}, 1.0
			for k := range values {
				if sums[k] = float64(bias[r]); k == 1 && f != gated {
					break
				}
				for c, v := range values[k][r] {
					sums[k] += v * in[c]
					size += math.Abs(v * in[c])
				}
			}
			want := sums[0]
			switch f {
			case add:
				want += float64(y[i*rows+r])
			case gated:
				want *= sums[1] / (1 + math.Exp(-1.5957691216057308*(want+0.044715*want*want*want)))
			case store:
				if softcap > 0 {
					want = softcap * math.Tanh(want/softcap)
				}
			}
			limit := size * 1e-6
			if of != gguf.F32 && n > fewRows {
				limit = size * 2e-5 // numbers in two parts of 8 bits
			}
			if f == gated {
				limit *= 1 + math.Abs(sums[0]) + math.Abs(sums[1])
			}
			if d := math.Abs(float64(got[i*rows+r]) - want); !(d <= limit) {
				t.Fatalf("row %d, output %d: %v, want %v within %.3g", i, r, got[i*rows+r], want, limit)
			}
		}
	}
}

func transposed(x [][]float64) [][]float64 {
	y := make([][]float64, len(x[0]))
	for c := range y {
		for r := range x {
			y[c] = append(y[c], x[r][c])
		}
	}
	return y
}

func normal(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// TestFewRowsFitSharedMemory: a product takes as many rows as it has, as its kernels know, and as fit, in blocks beside a
// ring.
func TestFewRowsFitSharedMemory(t *testing.T) {
	s := &steps{d: &Device{sharedLimit: 226 << 10}}
	for _, c := range []struct {
		e             elem
		cols, n, want int
	}{
		{bf16, 4096, 1, 1},
		{bf16, 4096, 2, 2},
		{bf16, 4096, 3, 4},
		{bf16, 4096, 4, 4},
		{bf16, 4096, 8, 4},
		{f32, 14336, 4, 4},
		{f16, 14593, 4, 2},
		{bf16, 29000, 2, 1},
		{bf16, 53248, 8, 1},
		{q4_0, 4096, 1, 1},
		{q8_0, 4096, 4, 4},
		{q4_1, 10240, 4, 4},
		{q6_K, 11520, 4, 2},
		{q4_K, 22528, 2, 2},
		{q4_0, 22784, 2, 1},
	} {
		id, rows := s.few(c.e, c.cols, c.n)
		if rows != c.want {
			t.Errorf("%d of %d rows of %d at a time, elements %d, want %d", rows, c.n, c.cols, c.e, c.want)
		}
		if bytes := stagedBytes(id, c.cols); bytes > s.d.sharedLimit {
			t.Errorf("%d rows of %d take %d bytes, above %d", rows, c.cols, bytes, s.d.sharedLimit)
		}
	}
}
