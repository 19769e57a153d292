package simd

import "unsafe"

// Vector is an x that rows of blocks are multiplied with, in the form that their
// kernels take. It may be set again and again, and read by several goroutines.
//
// With AVX-512 VNNI and VBMI, that is fixed point: each block of 32 elements has a scale of its
// own, a power of two, and 24 bits an element, a sign among them. An element is off by
// at most 2⁻²³ of its block's largest, which is what adding it to a sum of that size in
// float32 costs, too.
type Vector struct {
	x     []float32
	fixed []byte // chunks of four blocks, on a cache line's border; nil where there is none
	room  []byte
}

// A chunk is the fixed point of four blocks: see gen/fixed.go.
const (
	chunkBlocks = 4
	chunkBytes  = 576
	lineBytes   = 64
)

// Set makes v of x, whole blocks, which stays in use.
func (v *Vector) Set(x []float32) {
	v.x, v.fixed = x, nil
	blocks := len(x) / BlockElements
	if blocks == 0 || !fixes() {
		return
	}
	chunks := (blocks + chunkBlocks - 1) / chunkBlocks
	if need := chunks*chunkBytes + lineBytes; cap(v.room) < need {
		v.room = make([]byte, need)
	}
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(v.room)))) & (lineBytes - 1)
	fixed := v.room[skip:][:chunks*chunkBytes]
	clear(fixed[blocks/chunkBlocks*chunkBytes:]) // of blocks that are not there, all is 0
	if fix(fixed, x) {
		v.fixed = fixed
	}
}

// Len is the number of elements.
func (v *Vector) Len() int { return len(v.x) }
