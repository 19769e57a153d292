package kv

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/flashdec/flashdec/attn"
)

// Cache is a pool of pages that sequences take from. A page may belong to several
// sequences; who appends into such a page copies it first. Different sequences
// of a cache may be used by different goroutines at the same time.
type Cache struct {
	cfg   Config
	store Store

	mu     sync.Mutex
	refs   []int32     // a used page's sequences; a free page's link to the next, as linkTo
	free   int         // first free page below fresh, or none
	fresh  int         // pages from here on have never been used
	used   int         // pages that some sequence holds
	shared int         // pages that several sequences hold
	closed atomic.Bool // set under the lock; views look without

	writing sync.RWMutex // held for reading while pages are written, so that Close waits
}

var errNilCache = fmt.Errorf("%w: the cache is nil", ErrFreed)

// none ends the list of free pages.
const none = -1

// linkTo spells the link to a free page (or none) as a number below 1, which no
// used page's count of sequences is.
func linkTo(page int) int32   { return int32(-1 - page) }
func linked(link int32) int   { return int(-1 - link) }
func isUsed(count int32) bool { return count > 0 }

// New makes an empty cache in the host's memory. It wraps [attn.ErrShape], or, when
// memory cannot be reserved, [ErrMemory] and the system's error.
func New(cfg Config) (*Cache, error) {
	caches, err := NewTogether(1, cfg)
	if err != nil {
		return nil, err
	}
	return caches[0], nil
}

const maxTogether = 1 << 16

// NewTogether makes n empty caches in the host's memory, such as those of a model's layers. Their pages of the same
// number lie side by side: where sequences grow alike in all of them, memory fills up from its beginning, as one
// cache's does, and huge pages waste no more of it. Memory goes back to the system when all are closed. Errors are
// those of [New].
func NewTogether(n int, cfg Config) ([]*Cache, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if n < 1 || n > maxTogether {
		return nil, fmt.Errorf("%w: %d caches, want 1 to %d", attn.ErrShape, n, maxTogether)
	}
	if err := cfg.checkSize(n); err != nil {
		return nil, err
	}
	cfg = cfg.complete()
	stores, err := newHostStores(n, cfg)
	if err != nil {
		return nil, err
	}
	caches := make([]*Cache, n)
	for i, s := range stores {
		caches[i] = newCache(cfg, s)
	}
	return caches, nil
}

// NewOn makes an empty cache over a store that has the pages of cfg. The cache
// closes the store. It wraps [attn.ErrShape].
func NewOn(store Store, cfg Config) (*Cache, error) {
	if store == nil {
		return nil, fmt.Errorf("%w: the store is nil", attn.ErrShape)
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return newCache(cfg.complete(), store), nil
}

func newCache(cfg Config, store Store) *Cache {
	return &Cache{cfg: cfg, store: store, free: none}
}

// Config is what the cache was made with, defaults of the scales put in. It is a
// copy.
func (c *Cache) Config() Config {
	if c == nil {
		return Config{}
	}
	return c.cfg.complete()
}

// open reports whether the cache can be used. The caller holds the lock.
func (c *Cache) open() error {
	if c.closed.Load() || c.store == nil {
		return fmt.Errorf("%w: the cache is closed, or was never made", ErrFreed)
	}
	return nil
}

// Close gives the pages back, when appends under way are done. Sequences of the
// cache return [ErrFreed] from then on, and its views are stale ([ErrStale]): their
// memory may still be read, but what it reads is undefined.
func (c *Cache) Close() error {
	if c == nil {
		return errNilCache
	}
	if err := c.shut(); err != nil {
		return err
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	return c.store.Close()
}

// shut marks the cache as closed, once.
func (c *Cache) shut() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.open()
	c.closed.Store(true)
	return err
}

// usable reports whether the cache can be used at this moment.
func (c *Cache) usable() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open()
}

// Stats counts a cache's pages.
type Stats struct {
	Pages  int // in all
	Used   int // held by some sequence
	Shared int // held by several
	Bytes  int // size of the used ones
}

// Stats counts the pages at this moment.
func (c *Cache) Stats() Stats {
	if c == nil {
		return Stats{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return Stats{Pages: c.cfg.NumPages, Used: c.used, Shared: c.shared, Bytes: c.used * c.cfg.PageBytes()}
}

// NewSequence returns an empty sequence. It holds no page yet.
func (c *Cache) NewSequence() *Sequence { return &Sequence{cache: c} }

// View is what a kernel needs to read the sequences, in this order. It is valid
// until one of them changes ([View]). It wraps [ErrFreed], or [attn.ErrShape] when a
// sequence is nil or another cache's.
func (c *Cache) View(seqs ...*Sequence) (View, error) {
	if c == nil {
		return View{}, errNilCache
	}
	err := c.usable()
	if err != nil {
		return View{}, err
	}
	tables := make([]Table, len(seqs))
	for i, s := range seqs {
		if tables[i], err = s.table(c); err != nil {
			return View{}, fmt.Errorf("sequence %d of the view: %w", i, err)
		}
	}
	return c.view(tables), nil
}

// view is the view of some page tables.
func (c *Cache) view(tables []Table) View {
	v := View{NumKVHeads: c.cfg.NumKVHeads, PageSize: c.cfg.PageSize, NumPages: c.cfg.NumPages, Seqs: tables}
	v.K, v.V = c.store.Planes()
	return v
}

// take appends n pages to dst, each held once: all of them or none. The caller
// holds the lock.
func (c *Cache) take(dst []PageID, n int) ([]PageID, error) {
	if err := c.open(); err != nil {
		return dst, err
	}
	if free := c.cfg.NumPages - c.used; n > free {
		return dst, fmt.Errorf("%w: %d wanted, %d of %d free", ErrNoPages, n, free, c.cfg.NumPages)
	}
	for range n {
		page := c.free
		if page != none {
			c.free = linked(c.refs[page])
			c.refs[page] = 1
		} else {
			page = c.fresh
			c.fresh++
			c.refs = append(c.refs, 1)
		}
		dst = append(dst, PageID(page))
	}
	c.used += n
	return dst, nil
}

// hold counts one more sequence for each page. The caller holds the lock.
func (c *Cache) hold(pages []PageID) {
	for _, p := range pages {
		if c.refs[p]++; c.refs[p] == 2 {
			c.shared++
		}
	}
}

// drop counts one sequence less for each page, and frees those that have none
// left. The caller holds the lock.
func (c *Cache) drop(pages []PageID) {
	for _, p := range pages {
		if !isUsed(c.refs[p]) {
			panic(fmt.Sprintf("kv: page %d is dropped but free", p))
		}
		switch c.refs[p]--; c.refs[p] {
		case 1:
			c.shared--
		case 0:
			c.refs[p] = linkTo(c.free)
			c.free = int(p)
			c.used--
		}
	}
}
