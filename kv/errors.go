package kv

import (
	"errors"
	"math"
)

var (
	// ErrPage: a page table names a page that is not there.
	ErrPage = errors.New("page out of range")
	// ErrCapacity: more keys than there is room for.
	ErrCapacity = errors.New("over capacity")
	// ErrNoPages: the cache has too few free pages.
	ErrNoPages = errors.New("out of pages")
	// ErrMemory: the system or the device has too little memory for a cache.
	ErrMemory = errors.New("too little memory")
	// ErrFreed: the sequence has been freed, or the cache closed.
	ErrFreed = errors.New("already freed")
	// ErrStale: a sequence of the view has changed since the view was made, or the
	// cache has been closed.
	ErrStale = errors.New("the view is stale")
	// ErrNotFinite: a NaN or an infinity that the element type cannot store.
	ErrNotFinite = errors.New("not finite")
)

// extent is Σ a·b over pairs (a, b) of non-negative ints; ok is false when it
// does not fit an int.
func extent(pairs ...[2]int) (sum int, ok bool) {
	for _, p := range pairs {
		a, b := p[0], p[1]
		if a < 0 || b < 0 || b != 0 && a > (math.MaxInt-sum)/b {
			return 0, false
		}
		sum += a * b
	}
	return sum, true
}
