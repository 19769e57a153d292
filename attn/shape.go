package attn

import "fmt"

// Shape is what all sequences of a decode step have in common.
// Query head h reads KV head h / GroupSize.
type Shape struct {
	NumHeads   int // query heads, a multiple of NumKVHeads
	NumKVHeads int
	KeyDim     int // elements of a query and of a key
	ValueDim   int // elements of a value and of an output
}

// maxDim bounds every field of a Shape, so that products of two fields and of
// a field with a sequence length cannot overflow an int.
const maxDim = 1 << 20

// maxElements bounds a buffer: what a system's user space can map, in float32.
// maxKeys bounds a sequence. wide is 1 where an int has 64 bits, and 0 where it
// has 32.
const (
	wide        = ^uint(0) >> 63
	maxElements = 1 << (28 + 16*wide)
	maxKeys     = 1 << (26 + 14*wide)
)

// GroupSize is the number of query heads that share one KV head; 0 without any.
func (s Shape) GroupSize() int {
	if s.NumKVHeads == 0 {
		return 0
	}
	return s.NumHeads / s.NumKVHeads
}

// bufferSize is how many elements rows of dim have. It wraps [ErrShape] where no
// buffer can have them.
func bufferSize(rows, dim int) (int, error) {
	if n, ok := product(rows, dim); ok && n <= maxElements {
		return n, nil
	}
	return 0, fmt.Errorf("%w: a buffer of %d rows × %d elements, want 0 to %d elements", ErrShape, rows, dim, maxElements)
}

// CheckQueries reports a number of queries that is negative, or whose buffers
// would have more than 2⁴⁴ elements (2²⁸ where an int has 32 bits), as no buffer
// can. It wraps [ErrShape].
func (s Shape) CheckQueries(n int) error {
	if rows, ok := product(n, s.NumHeads); ok {
		if _, err := bufferSize(rows, max(s.KeyDim, s.ValueDim)); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%w: %d queries × %d heads × dim %d, want 0 to %d elements of a buffer",
		ErrShape, n, s.NumHeads, max(s.KeyDim, s.ValueDim), maxElements)
}

// Validate reports the first thing that keeps s from describing attention.
// It wraps [ErrShape].
func (s Shape) Validate() error {
	for _, f := range [...]struct {
		name  string
		value int
	}{
		{"KV heads", s.NumKVHeads},
		{"query heads", s.NumHeads},
		{"key dim", s.KeyDim},
		{"value dim", s.ValueDim},
	} {
		if f.value < 1 || f.value > maxDim {
			return fmt.Errorf("%w: %s is %d, want 1 to %d", ErrShape, f.name, f.value, maxDim)
		}
	}
	if s.NumHeads%s.NumKVHeads != 0 {
		return fmt.Errorf("%w: %d query heads are not a multiple of %d KV heads", ErrShape, s.NumHeads, s.NumKVHeads)
	}
	return nil
}
