package modeltest

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/flashdec/flashdec/gguf"
)

// GGUF is a file under way: metadata, and tensors that are there or a hole in it.
type GGUF struct {
	pairs, tensors       []byte
	numPairs, numTensors uint64
	parts                []ggufPart
	end                  int // of the parts
}

type ggufPart struct {
	offset int
	data   []byte
}

// ggufAlignment is that of the tensors.
const ggufAlignment = 32

func ggufText(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}

// Set adds a pair; v is a uint32, a float32 or a string.
func (w *GGUF) Set(key string, v any) {
	w.numPairs++
	w.pairs = ggufText(w.pairs, key)
	number := func(kind, bits uint32) {
		w.pairs = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(w.pairs, kind), bits)
	}
	switch v := v.(type) {
	case uint32:
		number(4, v)
	case float32:
		number(6, math.Float32bits(v))
	case string:
		w.pairs = ggufText(binary.LittleEndian.AppendUint32(w.pairs, 8), v)
	default:
		panic(fmt.Sprintf("modeltest: a pair of type %T", v))
	}
}

// Add adds a tensor, whose last dimension is that of its rows. Without data it is a hole, which reads as zeros.
func (w *GGUF) Add(name string, t gguf.Type, data []byte, shape ...int) {
	w.numTensors++
	w.tensors = binary.LittleEndian.AppendUint32(ggufText(w.tensors, name), uint32(len(shape)))
	size := t.RowBytes(shape[len(shape)-1])
	for i := len(shape) - 1; i >= 0; i-- {
		w.tensors = binary.LittleEndian.AppendUint64(w.tensors, uint64(shape[i]))
		if i > 0 {
			size *= shape[i-1]
		}
	}
	if data != nil && len(data) != size {
		panic(fmt.Sprintf("modeltest: %s has %d bytes, want %d", name, len(data), size))
	}
	w.tensors = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(w.tensors, uint32(t)), uint64(w.end))
	w.parts = append(w.parts, ggufPart{w.end, data})
	w.end += (size + ggufAlignment - 1) / ggufAlignment * ggufAlignment
}

// Write writes the file.
func (w *GGUF) Write(t testing.TB, path string) {
	t.Helper()
	b := append([]byte("GGUF"), 3, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(b, w.numTensors), w.numPairs)
	b = append(append(b, w.pairs...), w.tensors...)
	b = append(b, make([]byte, -len(b)&(ggufAlignment-1))...)
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err = f.Write(b); err == nil {
		err = f.Truncate(int64(len(b) + w.end))
	}
	for _, p := range w.parts {
		if err == nil && p.data != nil {
			_, err = f.WriteAt(p.data, int64(len(b)+p.offset))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Float32s are the bytes of numbers.
func Float32s(x ...float32) []byte {
	b := make([]byte, 0, 4*len(x))
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}
