package kv

import (
	"fmt"
	"sync/atomic"
)

// change is a way in which a sequence's tokens or pages change.
type change uint64

const (
	byAppend change = iota
	byTruncate
	byForget
	byFree

	changeBits = 2
)

var changeNames = [1 << changeBits]string{"Append", "Truncate", "Forget", "Free"}

// version counts a sequence's changes; its low bits are the last of them. It goes
// up under the sequence's lock, before a page is given back, and is read without.
type version struct{ atomic.Uint64 }

func (v *version) raise(c change) {
	v.Store((v.Load()>>changeBits+1)<<changeBits | uint64(c))
}

// fresh reports a table whose sequence has changed since, or whose cache is closed.
// A table that the caller made has no sequence.
func (t *Table) fresh(seq int) error {
	if t.of == nil {
		return nil
	}
	if t.of.cache.closed.Load() {
		return fmt.Errorf("%w: the cache of its sequence %d has been closed since it was made (%w)", ErrStale, seq, ErrFreed)
	}
	now := t.of.version.Load()
	if now == t.version {
		return nil
	}
	last := change(now % (1 << changeBits))
	err := fmt.Errorf("%w: its sequence %d has changed since it was made (changes: %d, the last by %s); want a new one",
		ErrStale, seq, now>>changeBits-t.version>>changeBits, changeNames[last])
	if last == byFree {
		err = fmt.Errorf("%w (%w)", err, ErrFreed)
	}
	return err
}
