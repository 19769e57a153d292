package tensorfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"reflect"
	"strconv"
	"unsafe"
)

// maxRank is numpy's limit. A longer shape in a file is an attack: it costs two bytes a dimension there
// and eight here.
const maxRank = 64

// Tensor is one named array.
type Tensor struct {
	Name  string
	DType DType
	Shape []int  // empty for a scalar; a dimension may be 0
	Data  []byte // little-endian, row-major; len = product(Shape) · DType.Size()
}

// Element is a Go type whose memory can be a tensor's.
type Element interface {
	float64 | float32 | int64 | int32 | int16 | int8 | uint64 | uint32 | uint16 | uint8
}

// View returns t's elements as []T. T is the type of the same width and kind: float32 for F32, uint16
// for the bits of F16 and BF16, uint8 for those of F8E4M3 and F8E5M2 and for Bool.
//
// The result is t.Data itself where the machine is little-endian and the data is aligned for T (a
// safetensors header may leave it at any address), and a copy elsewhere: treat it as read-only.
//
// It fails with ErrDType for another T, and with ErrShape where t's data does not fill its shape.
func View[T Element](t Tensor) ([]T, error) {
	if err := t.check(); err != nil {
		return nil, fmt.Errorf("tensorfile: %w", err)
	}
	goType := reflect.TypeFor[T]()
	if dtypes[t.DType].kind != goType.Kind() {
		return nil, t.errDType(goType.String())
	}
	if len(t.Data) == 0 {
		return []T{}, nil
	}
	var zero T
	p := unsafe.Pointer(unsafe.SliceData(t.Data))
	if nativeLittleEndian() && uintptr(p)%unsafe.Alignof(zero) == 0 {
		return unsafe.Slice((*T)(p), t.len()), nil
	}
	return decode[T](t), nil
}

// Bytes is what View takes elements from: the memory of x itself where the machine is little-endian, and
// a copy elsewhere.
func Bytes[T Element](x []T) []byte {
	size := int(reflect.TypeFor[T]().Size())
	if nativeLittleEndian() {
		return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*size)
	}
	data, err := binary.Append(make([]byte, 0, len(x)*size), binary.LittleEndian, x)
	if err != nil {
		panic("tensorfile: " + err.Error()) // every Element has a size
	}
	return data
}

// Float32s returns a copy of t's elements. F64 is rounded to nearest, the narrower floats are exact,
// and the payload of a NaN that is not F64 is kept.
//
// It fails with ErrDType if t holds no floats, and with ErrShape where t's data does not fill its shape.
func (t Tensor) Float32s() ([]float32, error) {
	if err := t.checkFloat(); err != nil {
		return nil, err
	}
	switch t.DType {
	case F32:
		return decode[float32](t), nil
	case F64:
		out := make([]float32, t.len())
		for i := range out {
			out[i] = float32(math.Float64frombits(binary.LittleEndian.Uint64(t.Data[8*i:])))
		}
		return out, nil
	}
	return t.widened(), nil
}

// Float64s is Float32s in float64, exact for every float type. A signalling NaN may come out quiet.
func (t Tensor) Float64s() ([]float64, error) {
	if err := t.checkFloat(); err != nil {
		return nil, err
	}
	if t.DType == F64 {
		return decode[float64](t), nil
	}
	singles, err := t.Float32s()
	if err != nil {
		return nil, err
	}
	out := make([]float64, len(singles))
	for i, v := range singles {
		out[i] = float64(v)
	}
	return out, nil
}

// Ints returns a copy of t's elements, of any integer type or Bool (as 0 and 1).
//
// It fails with ErrDType for floats, with ErrTooLarge where an element does not fit an int, and with
// ErrShape where t's data does not fill its shape.
func (t Tensor) Ints() ([]int, error) {
	if err := t.check(); err != nil {
		return nil, fmt.Errorf("tensorfile: %w", err)
	}
	if t.DType.is(float) {
		return nil, t.errDType("an integer type")
	}
	out := make([]int, t.len())
	for i := range out {
		v, ok := t.integer(i)
		if !ok {
			return nil, fmt.Errorf("tensorfile: tensor %s: element %d of %v does not fit an int: %w",
				quote(t.Name), i, t.DType, ErrTooLarge)
		}
		out[i] = v
	}
	return out, nil
}

// integer is element i, and whether an int holds it.
func (t Tensor) integer(i int) (v int, ok bool) {
	u := t.unsigned(i)
	switch {
	case t.DType == Bool:
		return int(min(u, 1)), true
	case t.DType.is(signed):
		unused := 64 - 8*t.DType.Size()
		s := int64(u<<unused) >> unused // extends the sign
		return int(s), int64(int(s)) == s
	default:
		return int(u), u <= math.MaxInt
	}
}

// unsigned is the bits of element i, extended by zeros.
func (t Tensor) unsigned(i int) uint64 {
	var word [8]byte
	size := t.DType.Size()
	copy(word[:], t.Data[i*size:(i+1)*size])
	return binary.LittleEndian.Uint64(word[:])
}

// Text is the one element of t as [ParseNPZ] has it in the metadata: in the fewest digits that give it
// back. ok is false for any other number of elements.
func (t Tensor) Text() (s string, ok bool) {
	if t.check() != nil || t.len() != 1 {
		return "", false
	}
	switch {
	case t.DType == F64:
		return strconv.FormatFloat(decode[float64](t)[0], 'g', -1, 64), true
	case t.DType == F32:
		return strconv.FormatFloat(float64(decode[float32](t)[0]), 'g', -1, 32), true
	case t.DType.is(float):
		return strconv.FormatFloat(float64(t.widened()[0]), 'g', -1, 32), true
	case t.DType == Bool:
		return strconv.FormatBool(t.Data[0] != 0), true
	case t.DType.is(signed):
		unused := 64 - 8*t.DType.Size()
		return strconv.FormatInt(int64(t.unsigned(0)<<unused)>>unused, 10), true
	default:
		return strconv.FormatUint(t.unsigned(0), 10), true
	}
}

// decode copies the elements, which T is known to fit.
func decode[T Element](t Tensor) []T {
	out := make([]T, t.len())
	if _, err := binary.Decode(t.Data, binary.LittleEndian, out); err != nil {
		panic("tensorfile: " + err.Error()) // check has measured Data
	}
	return out
}

// len is the number of elements of a checked tensor.
func (t Tensor) len() int { return len(t.Data) / t.DType.Size() }

// check holds a tensor, which anyone may have made, against its own description.
func (t Tensor) check() error {
	if !t.DType.valid() {
		return fmt.Errorf("tensor %s: %v: %w", quote(t.Name), t.DType, ErrDType)
	}
	want, err := byteSize(t.Shape, t.DType.Size())
	if err != nil {
		return fmt.Errorf("tensor %s: %w", quote(t.Name), err)
	}
	if len(t.Data) != want {
		return fmt.Errorf("tensor %s: %v %v wants %d bytes, got %d: %w",
			quote(t.Name), t.DType, t.Shape, want, len(t.Data), ErrShape)
	}
	return nil
}

func (t Tensor) checkFloat() error {
	if err := t.check(); err != nil {
		return fmt.Errorf("tensorfile: %w", err)
	}
	if !t.DType.is(float) {
		return t.errDType("a float type")
	}
	return nil
}

func (t Tensor) errDType(wanted string) error {
	return fmt.Errorf("tensorfile: tensor %s: is %v, wanted %s: %w", quote(t.Name), t.DType, wanted, ErrDType)
}

// byteSize is product(shape) · itemSize. Dimensions of 0 are left out of the product until its end, so
// that [2^62, 2^62, 0] overflows in any order of its dimensions.
func byteSize(shape []int, itemSize int) (int, error) {
	if len(shape) > maxRank {
		return 0, fmt.Errorf("%d dimensions pass the limit of %d: %w", len(shape), maxRank, ErrShape)
	}
	size, empty := uint64(itemSize), false
	for _, dim := range shape {
		if dim < 0 {
			return 0, fmt.Errorf("shape %v: dimension %d is negative: %w", shape, dim, ErrShape)
		}
		if dim == 0 {
			empty = true
			continue
		}
		over, product := bits.Mul64(size, uint64(dim))
		if over != 0 || product > math.MaxInt {
			return 0, fmt.Errorf("shape %v: elements of %d bytes pass %d bytes in all: %w",
				shape, itemSize, math.MaxInt, ErrTooLarge)
		}
		size = product
	}
	if empty {
		return 0, nil
	}
	return int(size), nil
}

// parseCount reads a dimension or an offset: digits only, no more than an int holds. What is no count
// is a sentinel.
func parseCount(digits string, sentinel error) (int, error) {
	n, err := strconv.ParseUint(digits, 10, strconv.IntSize-1)
	if errors.Is(err, strconv.ErrRange) {
		return 0, fmt.Errorf("%s passes %d: %w", quote(digits), math.MaxInt, ErrTooLarge)
	}
	if err != nil {
		return 0, fmt.Errorf("%s is not a count: %w", quote(digits), sentinel)
	}
	return int(n), nil
}

func nativeLittleEndian() bool { return binary.NativeEndian.Uint16([]byte{1, 0}) == 1 }
