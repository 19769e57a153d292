package kv

import (
	"fmt"

	"github.com/flashdec/flashdec/attn"
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
	// KeyScales and ValueScales are for quantised types alone. Kinds but TokenScale
	// come with their Values, which a caller has calibrated; TensorScale without any
	// is 1. A token's scales are computed when it is appended. The zero value is
	// TokenScale for quantised types.
	KeyScales   Scales
	ValueScales Scales
}

// complete puts the defaults of the scales in.
func (c Config) complete() Config {
	c.KeyScales = c.KeyScales.forType(c.KeyType)
	c.ValueScales = c.ValueScales.forType(c.ValueType)
	return c
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
	c = c.complete()
	for _, h := range c.halves() {
		if !h.t.known() {
			return fmt.Errorf("%w: element type %v is not known", attn.ErrShape, h.t)
		}
		if err := h.scales.validate(h.name, h.t, c.NumKVHeads, h.dim); err != nil {
			return err
		}
	}
	return c.checkSize(1)
}

const (
	wide        = ^uint(0) >> 63 // 1 where an int has 64 bits, and 0 where it has 32
	maxPageSize = 1 << 30
	maxPages    = 1 << 30             // page ids are int32, and some are spoken for
	maxBytes    = 1 << (30 + 16*wide) // what a system's user space can map, with room to spare
)

// checkSize reports n caches that could not be addressed.
func (c *Config) checkSize(n int) error {
	ok := c.KeyDim <= maxBytes && c.ValueDim <= maxBytes // else a row's size may overflow
	tokens, ok1 := extent([2]int{c.NumPages, c.PageSize})
	rows, ok2 := extent([2]int{tokens, c.NumKVHeads})
	bytes, ok3 := extent([2]int{rows, c.rowBytes()})
	if all, ok4 := extent([2]int{bytes, n}); ok && ok1 && ok2 && ok3 && ok4 && all <= maxBytes {
		return nil
	}
	return fmt.Errorf("%w: %d × %d pages of %d tokens × %d heads are more bytes than can be addressed",
		attn.ErrShape, n, c.NumPages, c.PageSize, c.NumKVHeads)
}

// PageBytes is the size of one page: keys, values, and the scales of its tokens.
func (c Config) PageBytes() int {
	c = c.complete()
	return c.PageSize * c.NumKVHeads * c.rowBytes()
}

// rowBytes is what a token takes a KV head.
func (c *Config) rowBytes() int {
	bytes := 0
	for _, h := range c.halves() {
		bytes += h.t.RowBytes(h.dim) + h.scaleBytes()
	}
	return bytes
}

// half is what a configuration says of the keys, or of the values.
type half struct {
	name   string
	t      DType
	dim    int
	scales *Scales
}

func (c *Config) halves() [2]half {
	return [2]half{
		{keysName, c.KeyType, c.KeyDim, &c.KeyScales},
		{valuesName, c.ValueType, c.ValueDim, &c.ValueScales},
	}
}

// scaleBytes is the size of a row's own scale.
func (h half) scaleBytes() int {
	if h.scales.Kind == TokenScale {
		return 4
	}
	return 0
}

// Planes are those of packed pages in the configured layout, without memory: what a
// device's [Store] makes its own from.
func (c Config) Planes() (k, v Plane) {
	c = c.complete()
	h := c.halves()
	return c.plane(h[0]), c.plane(h[1])
}

// plane is where packed pages in the configured layout have their rows and
// scales. It has no memory yet.
func (c *Config) plane(h half) Plane {
	row := h.t.rowElements(h.dim)
	p := Plane{Type: h.t, Dim: h.dim, PageStride: c.PageSize * c.NumKVHeads * row, Scales: *h.scales}
	if c.Layout == NHD {
		p.SlotStride, p.HeadStride = c.NumKVHeads*row, row
	} else {
		p.SlotStride, p.HeadStride = row, c.PageSize*row
	}
	if h.scales.Kind == TokenScale {
		// A head's are together in both layouts: it is a head that is walked.
		p.Scales.PageStride, p.Scales.HeadStride, p.Scales.SlotStride = c.PageSize*c.NumKVHeads, c.PageSize, 1
	}
	return p
}
