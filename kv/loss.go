package kv

import (
	"fmt"
	"math"

	"github.com/flashdec/flashdec/attn"
)

// Loss is how far stored keys and values are from the ones that were appended.
type Loss struct {
	Keys, Values Deviation
}

// Deviation is the distance of stored elements from the original ones.
type Deviation struct {
	Max, Mean float64 // of |stored − original|, where both are finite
	NonFinite int     // elements that are NaN, or infinite, on one side only
}

// Loss compares the sequence's tokens from position first on with the keys [n,
// NumKVHeads, KeyDim] and values [n, NumKVHeads, ValueDim] that they were
// appended as. It wraps [attn.ErrShape] or [ErrFreed].
func (s *Sequence) Loss(first int, k, v []float32) (Loss, error) {
	if err := s.enter(); err != nil {
		return Loss{}, err
	}
	defer s.mu.Unlock() // what is compared must not change meanwhile
	cfg := &s.cache.cfg
	n, err := cfg.numTokens(k, v)
	if err != nil {
		return Loss{}, err
	}
	if first < 0 || n > s.n-first {
		return Loss{}, fmt.Errorf("%w: %d tokens from position %d on of a sequence of %d", attn.ErrShape, n, first, s.n)
	}
	view := s.cache.view([]Table{s.clipped()})
	if err := view.OnHost(); err != nil {
		return Loss{}, err
	}
	rows := view.Sequence(0)
	return Loss{
		deviation(rows.Key, k, first, cfg.NumKVHeads, cfg.KeyDim),
		deviation(rows.Value, v, first, cfg.NumKVHeads, cfg.ValueDim),
	}, nil
}

// deviation compares rows, read from position first on, with the originals.
func deviation(read func(dst []float32, head, pos int), originals []float32, first, heads, dim int) Deviation {
	var d Deviation
	row := make([]float32, dim)
	n := 0
	for i := 0; i < len(originals); i += dim {
		read(row, i/dim%heads, first+i/dim/heads)
		for j, x := range originals[i : i+dim] {
			n += d.count(float64(row[j]), float64(x))
		}
	}
	if n > 0 {
		d.Mean /= float64(n)
	}
	return d
}

// count takes in an element, and is 1 if it has a distance. Mean is a sum so far.
func (d *Deviation) count(stored, original float64) int {
	switch off := math.Abs(stored - original); {
	case off <= math.MaxFloat64:
		d.Max = max(d.Max, off)
		d.Mean += off
		return 1
	case stored != original && (stored == stored || original == original):
		d.NonFinite++
	}
	return 0
}
