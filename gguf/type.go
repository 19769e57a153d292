package gguf

import (
	"fmt"
	"math"

	"github.com/flashdec/flashdec/internal/simd"
)

// Type is the type of a tensor's elements, numbered as in the file. The quantised ones are stored in
// blocks of adjacent elements of a row.
type Type uint32

const (
	F32  Type = 0
	F16  Type = 1  // IEEE 754 binary16
	Q4_0 Type = 2  // 32 elements d·(q − 8): d F16, q 4 bits
	Q4_1 Type = 3  // 32 elements d·q + m: d and m F16
	Q5_0 Type = 6  // 32 elements d·(q − 16): q 5 bits, the fifth apart
	Q5_1 Type = 7  // 32 elements d·q + m
	Q8_0 Type = 8  // 32 elements d·q: q int8
	Q4_K Type = 12 // 256 elements in 8 groups, each d·s·q − e·t: s and t 6 bits
	Q5_K Type = 13 // as Q4_K, q of 5 bits
	Q6_K Type = 14 // 256 elements in 16 groups, each d·s·(q − 32): s int8
	BF16 Type = 30 // the upper half of a float32
)

// types says all there is to know about a type; of others, nothing.
var types = [...]struct {
	name            string
	elements, bytes int // of a block
	dequantise      func(dst []float32, src []byte)
}{
	F32:  {"F32", 1, 4, plain(simd.F32)},
	F16:  {"F16", 1, 2, plain(simd.F16)},
	BF16: {"BF16", 1, 2, plain(simd.BF16)},
	Q4_0: {"Q4_0", 32, 18, quantised(simd.Q4_0)},
	Q4_1: {"Q4_1", 32, 20, quantised(simd.Q4_1)},
	Q5_0: {"Q5_0", 32, 22, quantised(simd.Q5_0)},
	Q5_1: {"Q5_1", 32, 24, quantised(simd.Q5_1)},
	Q8_0: {"Q8_0", 32, 34, quantised(simd.Q8_0)},
	Q4_K: {"Q4_K", 256, 144, quantised(simd.Q4_K)},
	Q5_K: {"Q5_K", 256, 176, quantised(simd.Q5_K)},
	Q6_K: {"Q6_K", 256, 210, quantised(simd.Q6_K)},
}

// others names types that exist but are not read, for the error.
var others = map[Type]string{
	9: "Q8_1", 10: "Q2_K", 11: "Q3_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL",
	21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 29: "IQ1_M", 34: "TQ1_0",
	35: "TQ2_0", 39: "MXFP4",
}

func (t Type) known() bool { return t < Type(len(types)) && types[t].bytes > 0 }

// String is the type's name as ggml spells it.
func (t Type) String() string {
	if t.known() {
		return types[t].name
	}
	if name := others[t]; name != "" {
		return name
	}
	return fmt.Sprintf("Type(%d)", uint32(t))
}

// BlockElements is how many elements a block has: rows are multiples of it. It is 0 for a type that is
// not read, and so are the sizes.
func (t Type) BlockElements() int {
	if !t.known() {
		return 0
	}
	return types[t].elements
}

// BlockBytes is the size of a block.
func (t Type) BlockBytes() int {
	if !t.known() {
		return 0
	}
	return types[t].bytes
}

// RowBytes is the size of a row of n elements, a multiple of [Type.BlockElements]; 0 for what is no row.
func (t Type) RowBytes(n int) int {
	if !t.known() || n < 0 || n > math.MaxInt/types[t].bytes {
		return 0
	}
	return n / types[t].elements * types[t].bytes
}

// Dequantise reads len(dst) elements, whole blocks, from src, which holds just them. Each is rounded to
// float32 as often as its formula has operations. It wraps ErrShape or ErrType.
func (t Type) Dequantise(dst []float32, src []byte) error {
	if !t.known() {
		return fmt.Errorf("gguf: %v: %w", t, ErrType)
	}
	if len(dst)%t.BlockElements() != 0 || len(src) != t.RowBytes(len(dst)) {
		return fmt.Errorf("gguf: %d elements of %d bytes of %v: %w", len(dst), len(src), t, ErrShape)
	}
	types[t].dequantise(dst, src)
	return nil
}
