package gpu

import (
	"errors"
	"runtime"
	"sync"
	"unsafe"

	"github.com/flashdec/flashdec/gguf"
)

// elem is a weight's or a cache's element type: Type of internal/cuda/kernels/code.cuh, as
// kv.DType numbers them, or BlockType of kernels/params.cuh. Weights have the first three
// of the former.
type elem int32

const (
	f32 elem = iota
	f16
	bf16
)

// Weights in blocks.
const (
	q8_0 elem = iota + 16
	q4_0
	q4_1
	q4_K
	q5_K
	q6_K
)

// blockLayout is what a row has of each of its blocks: all codes come first, then all
// scales with their minima, then what these count in, the tops.
type blockLayout struct{ elements, codes, scales, tops int } // bytes

var blockLayouts = map[elem]blockLayout{
	q8_0: {32, 32, 2, 0}, q4_0: {32, 16, 2, 0}, q4_1: {32, 16, 4, 0},
	q4_K: {256, 128, 16, 4}, q5_K: {256, 256, 16, 4}, q6_K: {256, 256, 16, 4},
}

// elemOf is what a type's elements become: those of other quantised types than have a
// name here are widened to float32.
func elemOf(t gguf.Type) elem {
	switch t {
	case gguf.F16:
		return f16
	case gguf.BF16:
		return bf16
	case gguf.Q8_0, gguf.Q5_0:
		return q8_0
	case gguf.Q4_0:
		return q4_0
	case gguf.Q4_1:
		return q4_1
	case gguf.Q4_K:
		return q4_K
	case gguf.Q5_K:
		return q5_K
	case gguf.Q6_K:
		return q6_K
	}
	return f32
}

// oneKind is what the matrices of one product become: all are in blocks, or none is.
func oneKind(types ...gguf.Type) []elem {
	list, inBlocks := make([]elem, len(types)), 0
	for i, t := range types {
		if list[i] = elemOf(t); list[i].inBlocks() {
			inBlocks++
		}
	}
	if inBlocks < len(list) {
		for i, e := range list {
			if e.inBlocks() {
				list[i] = f32
			}
		}
	}
	return list
}

// oneElem is what two matrices become whose rows are multiplied in pairs.
func oneElem(a, b gguf.Type) elem {
	if e := elemOf(a); e == elemOf(b) {
		return e
	}
	return f32
}

func (e elem) inBlocks() bool { return e >= q8_0 }

// bytes is the size of an element that is in no block.
func (e elem) bytes() int {
	if e == f32 {
		return 4
	}
	return 2
}

// rowBytes is the size of a row of whole blocks, or of elements that are in none.
func (e elem) rowBytes(cols int) int {
	if !e.inBlocks() {
		return cols * e.bytes()
	}
	l := blockLayouts[e]
	return cols / l.elements * (l.codes + l.scales + l.tops)
}

// keeps reports whether rows of a file's type are these elements as they lie.
func (e elem) keeps(t gguf.Type) bool { return e == elemOf(t) && t.BlockElements() == 1 }

// packRows packs n rows, on all processors.
func packRows(dst []byte, to matrix, src []byte, t gguf.Type, n int) error {
	rowBytes, parts := len(src)/n, min(runtime.GOMAXPROCS(0), n)
	errs := make([]error, parts)
	var all sync.WaitGroup
	for i := range parts {
		all.Go(func() {
			for r := i * n / parts; r < (i+1)*n/parts && errs[i] == nil; r++ {
				errs[i] = packRow(dst[r*to.pitch:][:to.pitch], to, src[r*rowBytes:][:rowBytes], t)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// packRow makes a row of a matrix of one of a file: as it is there, its blocks laid out
// anew, or widened. What is behind it in dst stays.
func packRow(dst []byte, to matrix, src []byte, t gguf.Type) error {
	switch {
	case to.elem.keeps(t):
		copy(dst, src)
	case to.elem.inBlocks():
		packBlocks(dst, to.elem, src, t)
	default:
		return t.Dequantise(floats(dst)[:to.cols], src)
	}
	return nil
}

// floats are the float32 in memory that is aligned to them.
func floats(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}
