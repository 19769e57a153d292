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

// GroupSize is the number of query heads that share one KV head.
func (s Shape) GroupSize() int { return s.NumHeads / s.NumKVHeads }

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
