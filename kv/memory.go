package kv

import (
	"sync/atomic"
	"unsafe"
)

// memory is host memory outside Go's heap, where a large cache would double the
// room that the collector leaves to garbage. Untouched pages cost nothing. Planes
// keep it alive: it is unmapped when nothing refers to it any more, so that a
// view of a closed cache never reads an unmapped address.
type memory struct {
	data  []byte
	users atomic.Int32 // stores that have not given it back
}

// hugeFrom is the size from which memory asks for huge pages, in which it is read faster by a quarter: below,
// the rounding to 2 MiB would waste more than a few percent of it.
const hugeFrom = 16 << 20 // docs/calibration.md

// floats is the memory, of a size for them, as float32 numbers. Both the system
// and Go align it well enough.
func (m *memory) floats() []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(m.data))), len(m.data)/4)
}
