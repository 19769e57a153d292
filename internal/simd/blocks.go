package simd

// Block is a layout of quantised weights: 32 adjacent elements of a row with a
// scale d, a binary16, of their own, as ggml has them.
type Block uint8

const (
	Q4_0      Block = iota // d·(code − 8): d, then 16 bytes, the low halves the first 16 codes
	Q4_1                   // d·code + m: d and m, then as Q4_0
	Q8_0                   // d·code: d, then 32 int8
	NumBlocks = iota
)

// BlockElements is how many elements a block has.
const BlockElements = 32

var blockNames, blockBytes = [NumBlocks]string{"q4_0", "q4_1", "q8_0"}, [NumBlocks]int{18, 20, 34}

// String is the layout's name in tests and benchmarks.
func (b Block) String() string { return blockNames[b] }

// Bytes is the size of a block.
func (b Block) Bytes() int { return blockBytes[b] }

// DotFunc computes
//
//	y[r] = Σ_c row_r[c]·x[c],  r < len(y), c < x.Len()
//
// as exactly as sums in float32 are. The rows, of x.Len() elements or x.Len()/32
// blocks each, at least one, follow one another in data.
type DotFunc func(y []float32, x *Vector, data []byte)

// Dot returns the fastest kernel of the current level for rows of blocks b.
func Dot(b Block) DotFunc { return dotFor(b) }

// Dequantise writes the elements of blocks to dst, whole blocks. A product is
// rounded before anything is added to it.
func Dequantise(b Block, dst []float32, src []byte) { dequantise(b, dst, src) }

func dequantiseGeneric(b Block, dst []float32, src []byte) {
	size := b.Bytes()
	for ; len(dst) > 0; dst, src = dst[BlockElements:], src[size:] {
		dequantiseBlock(b, (*[BlockElements]float32)(dst), src[:size])
	}
}

func dotPlain(b Block) DotFunc {
	return func(y []float32, v *Vector, data []byte) {
		x := v.x
		var row [BlockElements]float32
		size := b.Bytes()
		for r := range y {
			y[r] = 0
			for c := 0; c < len(x); c += BlockElements {
				dequantiseBlock(b, &row, data[:size])
				y[r] += dotGeneric(x[c:c+BlockElements], row[:])
				data = data[size:]
			}
		}
	}
}

func dequantiseBlock(b Block, dst *[BlockElements]float32, src []byte) {
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
	}
}
