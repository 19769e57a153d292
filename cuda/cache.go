package cuda

import (
	"fmt"

	"github.com/flashdec/flashdec/attn"
	icuda "github.com/flashdec/flashdec/internal/cuda"
	"github.com/flashdec/flashdec/internal/nv"
	"github.com/flashdec/flashdec/kv"
)

// Cache is a [kv.Cache] in the GPU's memory. Sequences append, fork, copy on write
// and truncate as anywhere, and what that takes happens on the GPU, in its stream:
// numbers become elements there, codes and scales the same as on the host. Views of
// it are for this GPU.
type Cache struct {
	*kv.Cache
	store *icuda.Store
}

// NewCache makes an empty cache in the GPU's memory. Where there is too little, the
// error says what was asked and what is free, and nothing stays taken. It wraps
// [attn.ErrShape], or [kv.ErrMemory].
func (g *GPU) NewCache(cfg kv.Config) (*Cache, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	store, err := g.b.NewStore(cfg)
	if nv.Is(err, nv.OutOfMemory) {
		return nil, fmt.Errorf("%w: %w", kv.ErrMemory, err)
	}
	if err != nil {
		return nil, err
	}
	cache, err := kv.NewOn(store, cfg)
	if err != nil {
		return nil, err
	}
	return &Cache{cache, store}, nil
}

// Append appends n tokens to a sequence of the cache whose keys [n, NumKVHeads,
// KeyDim] and values [n, NumKVHeads, ValueDim], float32, lie in the GPU's memory.
// Work that makes them must be in the GPU's stream, or done. Errors are those of
// [kv.Sequence.Append].
func (c *Cache) Append(seq *kv.Sequence, n int, k, v Pointer) error {
	if _, err := c.View(seq); err != nil {
		return err // another cache's, or freed
	}
	if n > 0 && (k == 0 || v == 0) {
		return fmt.Errorf("cuda: %w: no address of the keys or values to append", attn.ErrShape)
	}
	cfg := c.Config()
	keyRow, valueRow := nv.Pointer(4*cfg.NumKVHeads*cfg.KeyDim), nv.Pointer(4*cfg.NumKVHeads*cfg.ValueDim)
	return seq.AppendFunc(n, func(page kv.PageID, slot, first, count int) error {
		at := nv.Pointer(first)
		return c.store.WriteDevice(page, slot, count, nv.Pointer(k)+at*keyRow, nv.Pointer(v)+at*valueRow)
	})
}
