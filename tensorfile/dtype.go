package tensorfile

import (
	"fmt"
	"reflect"
)

// DType is the type of a tensor's elements. The zero DType is no type.
type DType uint8

const (
	F64 DType = iota + 1
	F32
	F16  // IEEE 754 binary16
	BF16 // the upper half of a float32
	// F8E4M3 has no infinity, and NaN only as S.1111.111 (the "FN" variant, OCP 8-bit floating point).
	F8E4M3
	F8E5M2 // the upper half of an F16
	I64
	I32
	I16
	I8
	U64
	U32
	U16
	U8
	Bool // one byte; 0 is false
)

// dtypes says all there is to know about a type, at its own index.
var dtypes = [...]struct {
	name  string       // in a safetensors header
	size  int          // bytes
	npy   string       // type string without the byte order, "" where numpy has none
	kind  reflect.Kind // the Go type whose memory an element is
	class class
}{
	F64:    {"F64", 8, "f8", reflect.Float64, float},
	F32:    {"F32", 4, "f4", reflect.Float32, float},
	F16:    {"F16", 2, "f2", reflect.Uint16, float},
	BF16:   {"BF16", 2, "", reflect.Uint16, float},
	F8E4M3: {"F8_E4M3", 1, "", reflect.Uint8, float},
	F8E5M2: {"F8_E5M2", 1, "", reflect.Uint8, float},
	I64:    {"I64", 8, "i8", reflect.Int64, signed},
	I32:    {"I32", 4, "i4", reflect.Int32, signed},
	I16:    {"I16", 2, "i2", reflect.Int16, signed},
	I8:     {"I8", 1, "i1", reflect.Int8, signed},
	U64:    {"U64", 8, "u8", reflect.Uint64, unsigned},
	U32:    {"U32", 4, "u4", reflect.Uint32, unsigned},
	U16:    {"U16", 2, "u2", reflect.Uint16, unsigned},
	U8:     {"U8", 1, "u1", reflect.Uint8, unsigned},
	Bool:   {"BOOL", 1, "b1", reflect.Uint8, boolean},
}

type class uint8

const (
	float class = iota + 1
	signed
	unsigned
	boolean
)

// String is the type's name in a safetensors header: "F32", "F8_E4M3", "BOOL".
func (d DType) String() string {
	if !d.valid() {
		return fmt.Sprintf("DType(%d)", uint8(d))
	}
	return dtypes[d].name
}

// Size is the number of bytes of one element, 0 for what is no type.
func (d DType) Size() int {
	if !d.valid() {
		return 0
	}
	return dtypes[d].size
}

func (d DType) valid() bool { return d >= F64 && d <= Bool }

func (d DType) is(c class) bool { return d.valid() && dtypes[d].class == c }

// dtypeNamed finds the type by its safetensors name.
func dtypeNamed(name string) (DType, bool) {
	for d := F64; d <= Bool; d++ {
		if dtypes[d].name == name {
			return d, true
		}
	}
	return 0, false
}

// dtypeOfNPY finds the type by its numpy type string without the byte order.
func dtypeOfNPY(code string) (DType, bool) {
	for d := F64; d <= Bool; d++ {
		if code != "" && dtypes[d].npy == code {
			return d, true
		}
	}
	return 0, false
}
