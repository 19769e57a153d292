package cpu

import (
	"math"
	"slices"
	"unsafe"

	"github.com/flashdec/flashdec/attn"
)

// states are rows of attention states on their way to a merge. M and L stay in
// float64: a state's M may be far from zero (see scorer.shift), where a
// float32 would round it.
type states struct {
	dim int
	m   []float64 // [rows] natural
	l   []float64 // [rows]
	o   []float32 // [rows, dim]
}

// resize makes room for rows; what they held is lost.
func (s *states) resize(rows, dim int) {
	s.dim = dim
	s.m = resize(s.m, rows)
	s.l = resize(s.l, rows)
	s.o = resize(s.o, rows*dim)
}

// row is the state of row i. Its O is a view.
func (s *states) row(i int) attn.State[float32] {
	return attn.State[float32]{M: s.m[i], L: s.l[i], O: s.o[i*s.dim : (i+1)*s.dim : (i+1)*s.dim]}
}

// cacheLine is the bytes that a processor takes from another at a time.
const cacheLine = 64

// resize returns n elements, in place if there is room. Their values are
// whatever they were. New room is whole cache lines, so that what one worker writes
// is nothing that another has.
func resize[T any](s []T, n int) []T {
	line := max(cacheLine/int(unsafe.Sizeof(*new(T))), 1)
	return slices.Grow(s[:0], (n+line-1)/line*line)[:n]
}

var negInf = math.Inf(-1)
