package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
)

// valueType is the tag of a metadata value.
type valueType uint32

const (
	typeUint8 valueType = iota
	typeInt8
	typeUint16
	typeInt16
	typeUint32
	typeInt32
	typeFloat32
	typeBool
	typeString
	typeArray
	typeUint64
	typeInt64
	typeFloat64
	numValueTypes
)

// valueSizes are the bytes of a value; of a string, its least; of an array none, because it cannot be
// an element.
var valueSizes = [numValueTypes]int{1, 1, 2, 2, 4, 4, 4, 1, 8, 0, 8, 8, 8}

// metadata reads so many pairs.
func (r *reader) metadata(n int) (map[string]any, error) {
	if n > r.left()/leastPair {
		return nil, fmt.Errorf("%d metadata pairs, but %d bytes are left: %w", n, r.left(), ErrFormat)
	}
	values := map[string]any{} // grows with what is read, not with what is claimed
	for i := range n {
		key, err := r.string("its key", maxName)
		if err != nil {
			return nil, fmt.Errorf("metadata pair %d of %d: %w", i, n, err)
		}
		if _, twice := values[key]; twice {
			return nil, fmt.Errorf("metadata %s comes twice: %w", quote(key), ErrFormat)
		}
		if values[key], err = r.pair(); err != nil {
			return nil, fmt.Errorf("metadata %s: %w", quote(key), err)
		}
	}
	return values, nil
}

// pair reads the value of a key.
func (r *reader) pair() (any, error) {
	t, err := r.valueType()
	if err != nil {
		return nil, err
	}
	if t == typeArray {
		return r.array()
	}
	return r.value(t)
}

func (r *reader) valueType() (valueType, error) {
	t, err := r.uint32("its type")
	if err == nil && t >= uint32(numValueTypes) {
		err = fmt.Errorf("value type %d, want at most %d: %w", t, numValueTypes-1, ErrFormat)
	}
	return valueType(t), err
}

func (r *reader) value(t valueType) (any, error) {
	if t == typeString {
		return r.string("its text", math.MaxInt)
	}
	b, err := r.take("its value", valueSizes[t])
	if err != nil {
		return nil, err
	}
	switch t {
	case typeUint8:
		return b[0], nil
	case typeInt8:
		return int8(b[0]), nil
	case typeUint16:
		return binary.LittleEndian.Uint16(b), nil
	case typeInt16:
		return int16(binary.LittleEndian.Uint16(b)), nil
	case typeUint32:
		return binary.LittleEndian.Uint32(b), nil
	case typeInt32:
		return int32(binary.LittleEndian.Uint32(b)), nil
	case typeFloat32:
		return math.Float32frombits(binary.LittleEndian.Uint32(b)), nil
	case typeBool:
		if b[0] > 1 {
			return nil, fmt.Errorf("a bool of %d, want 0 or 1: %w", b[0], ErrFormat)
		}
		return b[0] == 1, nil
	case typeUint64:
		return binary.LittleEndian.Uint64(b), nil
	case typeInt64:
		return int64(binary.LittleEndian.Uint64(b)), nil
	default:
		return math.Float64frombits(binary.LittleEndian.Uint64(b)), nil
	}
}

// array reads an array. Arrays of arrays, which no model has, are refused.
func (r *reader) array() (any, error) {
	t, err := r.valueType()
	if err != nil {
		return nil, err
	}
	if t == typeArray {
		return nil, fmt.Errorf("an array of arrays: %w", ErrType)
	}
	n, err := r.count("elements", 0, valueSizes[t])
	if err != nil {
		return nil, err
	}
	switch t {
	case typeUint8:
		return elements[uint8](r, t, n)
	case typeInt8:
		return elements[int8](r, t, n)
	case typeUint16:
		return elements[uint16](r, t, n)
	case typeInt16:
		return elements[int16](r, t, n)
	case typeUint32:
		return elements[uint32](r, t, n)
	case typeInt32:
		return elements[int32](r, t, n)
	case typeFloat32:
		return elements[float32](r, t, n)
	case typeBool:
		return r.bools(n)
	case typeString:
		return r.strings(n)
	case typeUint64:
		return elements[uint64](r, t, n)
	case typeInt64:
		return elements[int64](r, t, n)
	default:
		return elements[float64](r, t, n)
	}
}

// elements reads n numbers, which count has found room for.
func elements[T uint8 | int8 | uint16 | int16 | uint32 | int32 | uint64 | int64 | float32 | float64](r *reader, t valueType, n int) (any, error) {
	b, err := r.take("its elements", n*valueSizes[t])
	if err != nil {
		return nil, err
	}
	out := make([]T, n)
	if _, err := binary.Decode(b, binary.LittleEndian, out); err != nil {
		panic("gguf: " + err.Error()) // b has been measured
	}
	return out, nil
}

func (r *reader) bools(n int) (any, error) {
	out := make([]bool, n)
	for i := range out {
		v, err := r.value(typeBool)
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
		out[i] = v.(bool)
	}
	return out, nil
}

// strings reads n strings into one piece of memory: a vocabulary has hundreds of thousands.
func (r *reader) strings(n int) (any, error) {
	spans := *r // a second reader, to know where the last one ends
	for i := range n {
		if _, err := spans.span("its text", math.MaxInt); err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
	}
	all, first := string(r.data[r.at:spans.at]), r.at
	out := make([]string, n)
	for i := range out {
		b, err := r.span("its text", math.MaxInt)
		if err != nil {
			panic("gguf: " + err.Error()) // it has been read before
		}
		out[i] = all[r.at-first-len(b) : r.at-first]
	}
	return out, nil
}
