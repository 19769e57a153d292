package simd

// Elem is the type of an element of a key or a value. Elements are little-endian.
type Elem uint8

const (
	F32      Elem = iota
	F16           // IEEE 754 binary16
	BF16          // the upper half of a float32
	E4M3          // OCP 8-bit float: bias 7, largest 448, no infinity, NaN is 0x7f and 0xff
	E5M2          // OCP 8-bit float: the upper half of a binary16
	I8            // two's complement
	I4            // two's complement, two a byte, the low half first
	NumElems = iota
)

var elemNames = [NumElems]string{"f32", "f16", "bf16", "e4m3", "e5m2", "i8", "i4"}

// String is the type's name in tests and benchmarks.
func (e Elem) String() string { return elemNames[e] }

var elemBits = [NumElems]int{32, 16, 16, 8, 8, 8, 4}

// Bits is the size of an element.
func (e Elem) Bits() int { return elemBits[e] }

// RowBytes is the size of a row of dim elements: whole bytes.
func (e Elem) RowBytes(dim int) int { return (dim*e.Bits() + 7) / 8 }
