package kv

import (
	"fmt"
	"slices"
	"sync"

	"github.com/flashdec/flashdec/attn"
)

// Sequence is one sequence's keys and values in a cache. Its methods may be
// called from several goroutines, one at a time taking effect.
type Sequence struct {
	cache *Cache
	mu    sync.Mutex
	pages []PageID
	n     int // tokens
	freed bool

	version version
}

// Len is the number of tokens.
func (s *Sequence) Len() int {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}

// Append stores the keys [n, NumKVHeads, KeyDim] and values [n, NumKVHeads,
// ValueDim] of n new tokens, rounded to the cache's element types. On an error
// the sequence is as it was. It wraps [attn.ErrShape], [ErrNoPages], [ErrFreed] or
// [ErrNotFinite].
func (s *Sequence) Append(k, v []float32) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.mu.Unlock()
	cfg := &s.cache.cfg
	n, err := cfg.numTokens(k, v)
	if err != nil {
		return err
	}
	keyRow, valueRow := cfg.NumKVHeads*cfg.KeyDim, cfg.NumKVHeads*cfg.ValueDim
	return s.append(n, func(page PageID, slot, first, n int) error {
		return s.cache.store.Write(page, slot, k[first*keyRow:][:n*keyRow], v[first*valueRow:][:n*valueRow])
	})
}

// AppendFunc makes room for n new tokens and has write put them there: tokens
// first to first+count of the new ones into adjacent slots of a page. It is for
// tokens that are not in the host's memory. Errors are as with Append, or write's;
// on one, and where write panics, the sequence is as it was.
func (s *Sequence) AppendFunc(n int, write func(page PageID, slot, first, count int) error) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if n < 0 || write == nil {
		return fmt.Errorf("%w: appending %d tokens with a nil function: %t; want 0 or more and one", attn.ErrShape, n, write == nil)
	}
	if room := s.cache.cfg.NumPages*s.cache.cfg.PageSize - s.n; n > room {
		return fmt.Errorf("%w: %d tokens wanted, there are slots for %d", ErrNoPages, n, room)
	}
	return s.append(n, write)
}

// append is AppendFunc under the sequence's lock.
func (s *Sequence) append(n int, write func(page PageID, slot, first, count int) error) error {
	pages, replaced, err := s.extend(n)
	if err != nil {
		return err
	}
	filled := false
	defer func() {
		if !filled { // on an error, and where write panics
			s.release(pages[s.kept(replaced):])
		}
	}()
	if err := s.fill(pages, replaced, n, write); err != nil {
		return err
	}
	filled = true
	if n > 0 {
		s.version.raise(byAppend)
	}
	if replaced != none {
		s.release(s.pages[replaced:][:1])
	}
	s.pages, s.n = pages, s.n+n
	return nil
}

// numTokens is how many tokens keys and values are for.
func (c *Config) numTokens(k, v []float32) (int, error) {
	keyRow, valueRow := c.NumKVHeads*c.KeyDim, c.NumKVHeads*c.ValueDim
	n := len(k) / keyRow
	if len(k)%keyRow != 0 || len(v) != n*valueRow {
		return 0, fmt.Errorf("%w: k has %d elements and v %d, want n·%d and n·%d, for %d KV heads of key dim %d and value dim %d",
			attn.ErrShape, len(k), len(v), keyRow, valueRow, c.NumKVHeads, c.KeyDim, c.ValueDim)
	}
	return n, nil
}

// extend returns the page table for n more tokens, with pages taken from the
// cache. Where the last page is partly filled and shared, a new one replaces it:
// replaced is its place in the table, else none. The sequence's own table stays.
func (s *Sequence) extend(n int) (pages []PageID, replaced int, err error) {
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	replaced = none
	if last := len(s.pages) - 1; n > 0 && s.n%c.cfg.PageSize != 0 && c.refs[s.pages[last]] > 1 {
		replaced = last
	}
	kept := s.kept(replaced)
	pages = s.pages[:kept]
	if replaced != none {
		pages = slices.Clip(pages) // the old table is still in force
	}
	pages, err = c.take(pages, pagesFor(s.n+n, c.cfg.PageSize)-kept)
	return pages, replaced, err
}

// kept is how many entries of the page table stay when one may be replaced.
func (s *Sequence) kept(replaced int) int {
	if replaced != none {
		return replaced
	}
	return len(s.pages)
}

// fill copies the replaced page, if any, and writes the new tokens behind it. The
// replaced page is still held meanwhile, so that no other sequence writes into it.
func (s *Sequence) fill(pages []PageID, replaced, n int, write func(page PageID, slot, first, count int) error) error {
	s.cache.writing.RLock()
	defer s.cache.writing.RUnlock()
	if err := s.cache.usable(); err != nil {
		return err // closed since the pages were taken
	}
	cfg := &s.cache.cfg
	if replaced != none {
		if err := s.cache.store.Copy(pages[replaced], s.pages[replaced], s.n%cfg.PageSize); err != nil {
			return err
		}
	}
	for first := 0; first < n; {
		pos := s.n + first
		slot := pos % cfg.PageSize
		count := min(cfg.PageSize-slot, n-first)
		if err := write(pages[pos/cfg.PageSize], slot, first, count); err != nil {
			return err
		}
		first += count
	}
	return nil
}

// Fork returns a second sequence with the same tokens. They share all pages until
// one of them appends into a shared one, which it copies first. It wraps
// [ErrFreed].
func (s *Sequence) Fork() (*Sequence, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	s.cache.hold(s.pages)
	return &Sequence{cache: s.cache, pages: slices.Clone(s.pages), n: s.n}, nil
}

// Truncate keeps the first n tokens and gives back the pages that they do not
// need. It wraps [attn.ErrShape] or [ErrFreed].
func (s *Sequence) Truncate(n int) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if n < 0 || n > s.n {
		return fmt.Errorf("%w: truncating a sequence of %d tokens to %d", attn.ErrShape, s.n, n)
	}
	if n < s.n {
		s.version.raise(byTruncate)
	}
	need := pagesFor(n, s.cache.cfg.PageSize)
	s.release(s.pages[need:])
	s.pages, s.n = s.pages[:need], n
	return nil
}

// Free gives all pages back. The sequence cannot be used any more. It wraps
// [ErrFreed].
func (s *Sequence) Free() error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.mu.Unlock()
	s.version.raise(byFree)
	s.release(s.pages)
	s.pages, s.n, s.freed = nil, 0, true
	return nil
}

// release drops pages under the cache's lock.
func (s *Sequence) release(pages []PageID) {
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	s.cache.drop(pages)
}

// table is the sequence's page table in a view of c.
func (s *Sequence) table(c *Cache) (Table, error) {
	if s == nil || s.cache != c {
		return Table{}, fmt.Errorf("%w: it is nil or another cache's", attn.ErrShape)
	}
	if err := s.enter(); err != nil {
		return Table{}, err
	}
	defer s.mu.Unlock()
	return s.clipped(), nil
}

// clipped is the page table without room behind, where appends write. The caller
// holds the lock.
func (s *Sequence) clipped() Table {
	return Table{Pages: slices.Clip(s.pages), Len: s.n, of: s, version: s.version.Load()}
}

// enter locks the sequence if it can be used; the caller unlocks it then.
func (s *Sequence) enter() error {
	if s == nil {
		return fmt.Errorf("%w: the sequence is nil", ErrFreed)
	}
	s.mu.Lock()
	err := s.alive()
	if err != nil {
		s.mu.Unlock()
	}
	return err
}

// alive reports whether the sequence can still be used.
func (s *Sequence) alive() error {
	if s.freed || s.cache == nil {
		return fmt.Errorf("%w: the sequence is freed, or of no cache", ErrFreed)
	}
	return s.cache.usable()
}
