package kv

import (
	"fmt"
	"strings"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/internal/simd"
)

// DType is the element type of stored keys or values. The quantised ones, from
// F8E4M3 on, store codes: a value is its code times a scale (see [Scales]).
type DType uint8

// The element types, under the numbers that this module's kernels know them by.
const (
	F32       DType = DType(simd.F32)
	F16       DType = DType(simd.F16)  // IEEE 754 binary16: numbers from 65520 on are stored as infinities
	BF16      DType = DType(simd.BF16) // the upper half of a float32, rounded: only numbers from 3.397e38 on become infinities
	F8E4M3    DType = DType(simd.E4M3) // OCP 8-bit float: largest 448, no infinity
	F8E5M2    DType = DType(simd.E5M2) // OCP 8-bit float: the upper half of a binary16, largest 57344
	I8        DType = DType(simd.I8)   // two's complement
	I4        DType = DType(simd.I4)   // two's complement, two a byte, the low half first
	numDTypes       = DType(simd.NumElems)
)

// dtypes is what there is to know of each type.
var dtypes = [numDTypes]struct {
	name    string
	bits    int
	largest float32 // code that a token's scale takes its largest value to; 0: no codes
}{
	F32:    {"f32", 32, 0},
	F16:    {"f16", 16, 0},
	BF16:   {"bf16", 16, 0},
	F8E4M3: {"e4m3", 8, 448},
	F8E5M2: {"e5m2", 8, 57344},
	I8:     {"int8", 8, 127},
	I4:     {"int4", 4, 7},
}

// ParseDType is the type that a name means: f32, f16, bf16, e4m3, e5m2, int8 or int4. It
// wraps [attn.ErrOption].
func ParseDType(name string) (DType, error) {
	var names []string
	for t := range numDTypes {
		if dtypes[t].name == name {
			return t, nil
		}
		names = append(names, dtypes[t].name)
	}
	return 0, fmt.Errorf("%w: element type %q is not known, want one of %s", attn.ErrOption, name, strings.Join(names, ", "))
}

// String is the type's name as commands and files spell it.
func (t DType) String() string {
	if t.known() {
		return dtypes[t].name
	}
	return fmt.Sprintf("DType(%d)", uint8(t))
}

// Bits is the size of an element; 0 for a type that is not known.
func (t DType) Bits() int {
	if t.known() {
		return dtypes[t].bits
	}
	return 0
}

// RowBytes is the size of a row of dim elements: whole bytes, so a row of I4 and
// odd dim ends with half a byte that is not used.
func (t DType) RowBytes(dim int) int { return (dim*t.Bits() + 7) / 8 }

// rowElements is the least distance of rows of dim elements: rows begin at whole
// bytes.
func (t DType) rowElements(dim int) int {
	if t == I4 {
		return dim + dim%2
	}
	return dim
}

// Quantised reports whether the type stores codes.
func (t DType) Quantised() bool { return t.known() && dtypes[t].largest > 0 }

// integer reports whether the type's codes have no NaN.
func (t DType) integer() bool { return t == I8 || t == I4 }

func (t DType) known() bool { return t < numDTypes }
