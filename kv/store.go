package kv

import (
	"fmt"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/internal/simd"
)

// Config describes a paged cache.
type Config struct {
	NumKVHeads int
	KeyDim     int
	ValueDim   int
	PageSize   int    // tokens a page, any positive number
	NumPages   int    // pages in all; memory is taken as they are first used
	Layout     Layout // HND by default
	KeyType    DType  // F32 by default
	ValueType  DType
}

// Validate reports the first field that makes no cache, or sizes that overflow.
// It wraps [attn.ErrShape].
func (c Config) Validate() error {
	shape := attn.Shape{NumHeads: c.NumKVHeads, NumKVHeads: c.NumKVHeads, KeyDim: c.KeyDim, ValueDim: c.ValueDim}
	if err := shape.Validate(); err != nil {
		return err
	}
	if c.PageSize < 1 || c.PageSize > maxPageSize {
		return fmt.Errorf("%w: page size is %d, want 1 to %d", attn.ErrShape, c.PageSize, maxPageSize)
	}
	if c.NumPages < 1 || c.NumPages > maxPages {
		return fmt.Errorf("%w: number of pages is %d, want 1 to %d", attn.ErrShape, c.NumPages, maxPages)
	}
	if c.Layout > NHD {
		return fmt.Errorf("%w: layout is %d, want HND or NHD", attn.ErrShape, c.Layout)
	}
	for _, t := range [...]DType{c.KeyType, c.ValueType} {
		if t > BF16 {
			return fmt.Errorf("%w: element type %v is not known", attn.ErrShape, t)
		}
	}
	keys, ok1 := c.planeBytes(c.KeyType, c.KeyDim)
	values, ok2 := c.planeBytes(c.ValueType, c.ValueDim)
	if total, ok := extent([2]int{keys, 1}, [2]int{values, 1}); !ok1 || !ok2 || !ok || total > maxBytes {
		return fmt.Errorf("%w: %d pages of %d tokens × %d heads are more bytes than can be addressed",
			attn.ErrShape, c.NumPages, c.PageSize, c.NumKVHeads)
	}
	return nil
}

const (
	maxPageSize = 1 << 30
	maxPages    = 1 << 30 // page ids are int32, and some are spoken for
	maxBytes    = 1 << 46 // what a 64-bit system's user space can map, with room to spare
)

// planeBytes is the size of all pages of keys or of values.
func (c Config) planeBytes(t DType, dim int) (int, bool) {
	tokens, ok1 := extent([2]int{c.NumPages, c.PageSize})
	rows, ok2 := extent([2]int{tokens, c.NumKVHeads})
	elements, ok3 := extent([2]int{rows, dim})
	bits, ok4 := extent([2]int{elements, t.Bits()})
	return bits / 8, ok1 && ok2 && ok3 && ok4
}

// PageBytes is the size of one page, keys and values.
func (c Config) PageBytes() int {
	return c.PageSize * c.NumKVHeads * (c.KeyDim*c.KeyType.Bits() + c.ValueDim*c.ValueType.Bits()) / 8
}

// Store holds the elements of a cache's pages. The host's is the default; a
// device brings its own and shares all bookkeeping. Calls for different pages may
// run at the same time.
type Store interface {
	// Write stores the keys [n, NumKVHeads, KeyDim] and values [n, NumKVHeads,
	// ValueDim] of n tokens, converted to the element types, in adjacent slots of
	// a page.
	Write(page PageID, slot int, k, v []float32) error
	// Copy copies the first slots of page src to page dst.
	Copy(dst, src PageID, slots int) error
	// Planes says where keys and values lie.
	Planes() (k, v Plane)
	// Close frees the memory.
	Close() error
}

// hostStore keeps pages in the host's memory.
type hostStore struct {
	cfg    Config
	k, v   Plane
	memory [2]*memory
}

func newHostStore(cfg Config) (*hostStore, error) {
	s := &hostStore{cfg: cfg}
	for i, p := range [...]struct {
		plane *Plane
		t     DType
		dim   int
	}{{&s.k, cfg.KeyType, cfg.KeyDim}, {&s.v, cfg.ValueType, cfg.ValueDim}} {
		n, _ := cfg.planeBytes(p.t, p.dim)
		m, err := newMemory(n)
		if err != nil {
			return nil, err
		}
		s.memory[i] = m
		*p.plane = cfg.lay(p.t, p.dim)
		p.plane.Data, p.plane.keep = m.data, m
	}
	return s, nil
}

// lay sets the strides of packed pages in the configured layout.
func (c Config) lay(t DType, dim int) Plane {
	p := Plane{Type: t, Dim: dim, PageStride: c.PageSize * c.NumKVHeads * dim}
	if c.Layout == NHD {
		p.SlotStride, p.HeadStride = c.NumKVHeads*dim, dim
	} else {
		p.SlotStride, p.HeadStride = dim, c.PageSize*dim
	}
	return p
}

func (s *hostStore) Planes() (k, v Plane) { return s.k, s.v }

func (s *hostStore) Write(page PageID, slot int, k, v []float32) error {
	s.write(&s.k, page, slot, k)
	s.write(&s.v, page, slot, v)
	return nil
}

func (s *hostStore) write(p *Plane, page PageID, slot int, rows []float32) {
	bytes := p.RowBytes()
	for i := 0; len(rows) > 0; i++ {
		for head := range s.cfg.NumKVHeads {
			at := p.Offset(page, head, slot+i)
			simd.Narrow(p.Data[at:at+bytes], p.Type.elem(), rows[:p.Dim])
			rows = rows[p.Dim:]
		}
	}
}

func (s *hostStore) Copy(dst, src PageID, slots int) error {
	s.copy(&s.k, dst, src, slots)
	s.copy(&s.v, dst, src, slots)
	return nil
}

func (s *hostStore) copy(p *Plane, dst, src PageID, slots int) {
	bytes := p.RowBytes()
	for head := range s.cfg.NumKVHeads {
		for slot := range slots {
			to, from := p.Offset(dst, head, slot), p.Offset(src, head, slot)
			copy(p.Data[to:to+bytes], p.Data[from:from+bytes])
		}
	}
}

func (s *hostStore) Close() error {
	if err := s.memory[0].release(); err != nil {
		return err
	}
	return s.memory[1].release()
}
