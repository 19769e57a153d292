package simd

import "encoding/binary"

// Block is a layout of quantised weights, as ggml has them: adjacent elements of a
// row, 32 with a scale d, a binary16, of their own, or 256 in groups.
type Block uint8

const (
	Q4_0      Block = iota // d·(code − 8): d, then 16 bytes, the low halves the first 16 codes
	Q4_1                   // d·code + m: d and m, then as Q4_0
	Q8_0                   // d·code: d, then 32 int8
	Q5_0                   // d·(code − 16): d, the fifth bits of 32 codes, then as Q4_0
	Q5_1                   // d·code + m: d and m, then as Q5_0
	Q4_K                   // d·s·code − e·t in 8 groups: see superblocks.go
	Q5_K                   // as Q4_K, codes of 5 bits
	Q6_K                   // d·s·(code − 32) in 16 groups
	NumBlocks = iota
)

// BlockElements is how many elements the smaller blocks have; others have a multiple.
const BlockElements = 32

var layouts = [NumBlocks]struct {
	name            string
	elements, bytes int
}{
	Q4_0: {"q4_0", 32, 18}, Q4_1: {"q4_1", 32, 20}, Q8_0: {"q8_0", 32, 34}, Q5_0: {"q5_0", 32, 22}, Q5_1: {"q5_1", 32, 24},
	Q4_K: {"q4_K", 256, 144}, Q5_K: {"q5_K", 256, 176}, Q6_K: {"q6_K", 256, 210},
}

// String is the layout's name in tests and benchmarks.
func (b Block) String() string { return layouts[b].name }

// Elements is how many elements a block has.
func (b Block) Elements() int { return layouts[b].elements }

// Bytes is the size of a block.
func (b Block) Bytes() int { return layouts[b].bytes }

// RowBytes is the size of a row of n elements, whole blocks.
func (b Block) RowBytes(n int) int { return n / b.Elements() * b.Bytes() }

// DotFunc computes
//
//	y[r] = Σ_c row_r[c]·x[c],  r < len(y), c < x.Len()
//
// as exactly as sums in float32 are, of the x that the [Vector] has. The rows, of x.Len() elements each, whole
// blocks and at least one, follow one another in data.
type DotFunc func(y []float32, x *Vector, data []byte)

// DotLead is how far ahead of their work kernels fetch rows, in bytes: before what a [DotFunc] does first, so much of its
// data may be fetched by [FetchBytes].
const DotLead = 10 << 10 // docs/calibration.md

// Dot returns the fastest kernel of the current level for rows of blocks b.
func Dot(b Block) DotFunc { return dotFor(b) }

// Dequantise writes the elements of blocks to dst, whole blocks. A product is
// rounded before anything is added to it.
func Dequantise(b Block, dst []float32, src []byte) { dequantise(b, dst, src) }

func dequantiseGeneric(b Block, dst []float32, src []byte) {
	elements, size := b.Elements(), b.Bytes()
	for ; len(dst) > 0; dst, src = dst[elements:], src[size:] {
		dequantiseBlock(b, dst[:elements:elements], src[:size:size])
	}
}

func dotPlain(b Block) DotFunc {
	return func(y []float32, v *Vector, data []byte) {
		var room [superElements]float32
		row := room[:b.Elements()]
		for r := range y {
			y[r] = 0
			for x := v.x; len(x) > 0; x = x[len(row):] {
				dequantiseBlock(b, row, data[:b.Bytes()])
				y[r] += dotGeneric(x[:len(row)], row)
				data = data[b.Bytes():]
			}
		}
	}
}

func dequantiseBlock(b Block, dst []float32, src []byte) {
	d := widenAt(F16, src, 0)
	switch b {
	case Q4_0:
		for i, x := range src[2:18] {
			dst[i] = d * float32(int(x&15)-8)
			dst[i+16] = d * float32(int(x>>4)-8)
		}
	case Q4_1: // the conversions keep compilers from fusing the product with the sum
		m := widenAt(F16, src, 1)
		for i, x := range src[4:20] {
			dst[i] = float32(d*float32(x&15)) + m
			dst[i+16] = float32(d*float32(x>>4)) + m
		}
	case Q8_0:
		for i, x := range src[2:34] {
			dst[i] = d * float32(int8(x))
		}
	case Q5_0:
		fifth := binary.LittleEndian.Uint32(src[2:])
		for i, x := range src[6:22] {
			dst[i] = d * float32(int(x&15)|int(fifth>>i&1)<<4-16)
			dst[i+16] = d * float32(int(x>>4)|int(fifth>>(i+16)&1)<<4-16)
		}
	case Q5_1:
		m, fifth := widenAt(F16, src, 1), binary.LittleEndian.Uint32(src[4:])
		for i, x := range src[8:24] {
			dst[i] = float32(d*float32(uint32(x&15)|fifth>>i&1<<4)) + m
			dst[i+16] = float32(d*float32(uint32(x>>4)|fifth>>(i+16)&1<<4)) + m
		}
	case Q4_K:
		dequantiseQ4_K(dst, src)
	case Q5_K:
		dequantiseQ5_K(dst, src)
	case Q6_K:
		dequantiseQ6_K(dst, src)
	}
}
