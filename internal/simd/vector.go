package simd

import (
	"slices"
	"unsafe"
)

// Vector is an x that rows of blocks are multiplied with, in the form that their
// kernels take. It may be set again and again, and read by several goroutines.
//
// With AVX-512 VNNI, VBMI and GFNI, that is fixed point of 16 bits: four elements of either half of a block of 32 share
// a unit, a 32639th of the largest of the eight. An element is off by at most a 64000th of that largest, and sums of
// products are exact but for float32. What rounding has left of an uneven x is multiplied, too. What a model loses by it
// is in docs/NUMERICS.md.
type Vector struct {
	x     []float32
	forms [numForms]fixed

	rest      []float32 // of an uneven x
	restForms [numForms]fixed
}

// form is how fixed point lies in memory.
type form uint8

const (
	packedForm form = iota // blocks next to each other
	spreadForm             // as rows of Q4_1 have them, with room for a block's numbers
	numForms   = iota
)

// formOf is what the kernel of blocks b takes.
func formOf(b Block) form {
	if b == Q4_1 {
		return spreadForm
	}
	return packedForm
}

// chunkOf is what a chunk has of each form: see gen/fixed.go.
var chunkOf = [numForms]struct{ blocks, bytes int }{packedForm: {4, 448}, spreadForm: {3, 384}}

const lineBytes = 64

// fixed is an x in fixed point.
type fixed struct {
	chunks []byte // on a cache line's border; nil where there are none
	room   []byte
}

// Set makes v of x, whole blocks, which stays in use, for products with rows of the blocks that are named.
func (v *Vector) Set(x []float32, of ...Block) {
	v.x = x
	for f := range v.forms {
		v.forms[f].chunks, v.restForms[f].chunks = nil, nil
	}
	if len(x) == 0 || !fixes() {
		return
	}
	for _, b := range of {
		if f := formOf(b); v.forms[f].chunks == nil {
			v.forms[f].set(f, x)
		}
	}
	if uneven(x) {
		v.setRest()
	}
}

// setRest makes fixed point of what fixed point has left of x, where there is any.
func (v *Vector) setRest() {
	v.rest = v.rest[:0]
	for f := range v.forms {
		if v.forms[f].chunks == nil {
			continue
		}
		if len(v.rest) == 0 {
			v.rest = slices.Grow(v.rest, len(v.x))[:len(v.x)]
			leave(v.rest, v.x)
		}
		v.restForms[f].set(form(f), v.rest)
	}
}

// set makes fixed point of x, if it has one.
func (v *fixed) set(f form, x []float32) {
	chunk, blocks := chunkOf[f], len(x)/BlockElements
	size := (blocks + chunk.blocks - 1) / chunk.blocks * chunk.bytes
	if need := size + lineBytes; cap(v.room) < need {
		v.room = make([]byte, need)
	}
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(v.room)))) & (lineBytes - 1)
	chunks := v.room[skip:][:size]
	clear(chunks[blocks/chunk.blocks*chunk.bytes:]) // of blocks that are not there, all is 0
	if fix(f, chunks, x) {
		v.chunks = chunks
	}
}

// Len is the number of elements.
func (v *Vector) Len() int { return len(v.x) }
