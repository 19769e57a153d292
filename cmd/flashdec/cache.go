package main

import (
	"context"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/kv"
)

// caseCache is a case's keys and values as an engine reads them: in place, or
// copied into a paged cache.
type caseCache struct {
	view     kv.View
	pageSize int       // 0: in place
	cache    *kv.Cache // nil: in place
	lossy    bool      // stored in a type that does not hold the file's exactly
}

// newCache brings a case's keys and values into the form that the flags ask for.
func newCache(ctx context.Context, c *decodeCase, pageSize int, dtype string) (*caseCache, error) {
	stored, err := typesFor(c, dtype)
	if err != nil {
		return nil, err
	}
	own := [2]kv.DType{storedAs(c.k), storedAs(c.v)}
	if pageSize == 0 && stored == own {
		view, err := kv.Contiguous(kv.Tensor{Type: own[0], Data: c.k.Data}, kv.Tensor{Type: own[1], Data: c.v.Data},
			c.seqs, c.shape.NumKVHeads, c.keys, c.shape.KeyDim, c.shape.ValueDim, c.lens)
		if err != nil {
			return nil, c.named(err)
		}
		return &caseCache{view: view}, nil
	}
	cache, err := pagedCache(ctx, c, pageSize, stored)
	if err != nil {
		return nil, c.named(err)
	}
	for i, from := range own {
		cache.lossy = cache.lossy || stored[i] != from && stored[i] != kv.F32
	}
	return cache, nil
}

// typesFor is what the keys and the values are stored as.
func typesFor(c *decodeCase, name string) ([2]kv.DType, error) {
	if name == "" {
		return [2]kv.DType{storedAs(c.k), storedAs(c.v)}, nil
	}
	t, err := kv.ParseDType(name)
	return [2]kv.DType{t, t}, err
}

// pagedCache copies a case into pages.
func pagedCache(ctx context.Context, c *decodeCase, pageSize int, stored [2]kv.DType) (*caseCache, error) {
	longest := 1
	for _, n := range c.lens {
		longest = max(longest, n)
	}
	if pageSize == 0 || pageSize > longest {
		// A page longer than the longest sequence would hold nothing more than it.
		pageSize = longest
	}
	pages := 0
	for _, n := range c.lens {
		pages += (n + pageSize - 1) / pageSize
	}
	cache, err := kv.New(kv.Config{
		NumKVHeads: c.shape.NumKVHeads, KeyDim: c.shape.KeyDim, ValueDim: c.shape.ValueDim,
		KeyType: stored[0], ValueType: stored[1], PageSize: pageSize, NumPages: max(pages, 1),
	})
	if err != nil {
		return nil, err
	}
	c.copied = true
	cc := &caseCache{pageSize: pageSize, cache: cache}
	if cc.view, err = fillCache(ctx, c, cache, pageSize); err != nil {
		_ = cache.Close() // err is the failure to report
		return nil, err
	}
	return cc, nil
}

// appendKeys is how many keys at least are appended at a time.
const appendKeys = 64

// fillCache appends all sequences, a few pages of each in turn: their pages lie
// between each other's, as those of sequences that grow together do.
func fillCache(ctx context.Context, c *decodeCase, cache *kv.Cache, pageSize int) (kv.View, error) {
	seqs := make([]*kv.Sequence, c.seqs)
	for i := range seqs {
		seqs[i] = cache.NewSequence()
	}
	step := min(max(pageSize, appendKeys), 16*appendKeys)
	k := make([]float32, step*c.shape.NumKVHeads*c.shape.KeyDim)
	v := make([]float32, step*c.shape.NumKVHeads*c.shape.ValueDim)
	for first := 0; first < c.keys; first += step {
		for i, n := range c.lens {
			n = min(n-first, step)
			if n <= 0 {
				continue
			}
			if ctx.Err() != nil {
				return kv.View{}, context.Cause(ctx)
			}
			keys := c.tokens(k, c.rowsOf(c.k), c.shape.KeyDim, i, first, n)
			values := c.tokens(v, c.rowsOf(c.v), c.shape.ValueDim, i, first, n)
			if err := seqs[i].Append(keys, values); err != nil {
				return kv.View{}, err
			}
		}
	}
	return cache.View(seqs...)
}

// tokens fills dst with the rows [n, NumKVHeads, dim] of a sequence from a position
// on.
func (c *decodeCase) tokens(dst []float32, from rows, dim, seq, first, n int) []float32 {
	heads := c.shape.NumKVHeads
	for head := range heads {
		at := (seq*heads+head)*c.keys + first
		for i := range n {
			from.read(dst[(i*heads+head)*dim:][:dim], at+i)
		}
	}
	c.hasRead(n * heads * from.size)
	return dst[:n*heads*dim]
}

// source is what the direct softmax of a case is to read: the file itself, which
// no cache has touched, unless the cache holds other numbers.
func (cc *caseCache) source(c *decodeCase) source {
	if !cc.lossy {
		return c.fromFile
	}
	return func(p part) attn.KeyValues { return storedHead{cc.view.Sequence(p.seq), p.head} }
}

// storedHead is one KV head of a cached sequence, as an [attn.KeyValues] of a
// single head.
type storedHead struct {
	attn.KeyValues
	head int
}

func (h storedHead) Key(dst []float32, _, pos int)   { h.KeyValues.Key(dst, h.head, pos) }
func (h storedHead) Value(dst []float32, _, pos int) { h.KeyValues.Value(dst, h.head, pos) }

// types names what keys and values are stored as.
func (cc *caseCache) types() string {
	k, v := cc.view.K.Type.String(), cc.view.V.Type.String()
	if k == v {
		return k
	}
	return k + "/" + v
}

// bytes is the size of a case's keys and values as stored, their scales included.
func (cc *caseCache) bytes(c *decodeCase) int {
	row := 0
	for _, p := range []*kv.Plane{&cc.view.K, &cc.view.V} {
		row += p.RowBytes()
		if p.Scales.Kind == kv.TokenScale {
			row += 4
		}
	}
	return c.totalKeys() * c.shape.NumKVHeads * row
}

func (cc *caseCache) close() error {
	if cc.cache == nil {
		return nil
	}
	return cc.cache.Close()
}
