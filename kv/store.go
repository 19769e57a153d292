package kv

import (
	"errors"
	"fmt"
)

// Store holds the elements of a cache's pages, and the scales of its tokens. The host's is the default; a
// device brings its own and shares all bookkeeping. Calls for different pages may
// run at the same time.
type Store interface {
	// Write stores the keys [n, NumKVHeads, KeyDim] and values [n, NumKVHeads,
	// ValueDim] of n tokens, converted to the element types, in adjacent slots of
	// a page. It wraps [ErrNotFinite].
	Write(page PageID, slot int, k, v []float32) error
	// Copy copies the first slots of page src to page dst, scales included.
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
	memory []*memory
}

// newHostStores makes n stores of a complete configuration, whose pages of the same number lie side by side.
func newHostStores(n int, cfg Config) ([]*hostStore, error) {
	stores := make([]*hostStore, n)
	for i := range stores {
		stores[i] = &hostStore{cfg: cfg}
	}
	rows := cfg.PageSize * cfg.NumKVHeads // of a page
	for i, h := range cfg.halves() {
		page := rows * h.t.RowBytes(h.dim)
		data, err := reserve(stores, cfg.NumPages*page)
		if err != nil {
			return nil, err
		}
		var scales *memory
		if h.scales.Kind == TokenScale {
			if scales, err = reserve(stores, cfg.NumPages*rows*h.scaleBytes()); err != nil {
				return nil, err
			}
		}
		for j, s := range stores {
			p := cfg.plane(h)
			p.PageStride *= n
			p.keep, p.Data = data, data.data[j*page:]
			if scales != nil {
				p.Scales.PageStride *= n
				p.Scales.keep, p.Scales.Values = scales, scales.floats()[j*rows:]
			}
			*[...]*Plane{&s.k, &s.v}[i] = p
		}
	}
	return stores, nil
}

// reserve takes memory of so many bytes for each store.
func reserve(stores []*hostStore, bytes int) (*memory, error) {
	m, err := newMemory(bytes * len(stores))
	if err != nil {
		return nil, err
	}
	m.users.Store(int32(len(stores)))
	for _, s := range stores {
		s.memory = append(s.memory, m)
	}
	return m, nil
}

func (s *hostStore) Planes() (k, v Plane) { return s.k, s.v }

func (s *hostStore) Write(page PageID, slot int, k, v []float32) error {
	if err := s.write(&s.k, page, slot, k); err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	if err := s.write(&s.v, page, slot, v); err != nil {
		return fmt.Errorf("values: %w", err)
	}
	return nil
}

func (s *hostStore) write(p *Plane, page PageID, slot int, rows []float32) error {
	for i := 0; len(rows) > 0; i++ {
		for head := range s.cfg.NumKVHeads {
			if err := p.put(page, head, slot+i, rows[:p.Dim]); err != nil {
				return err
			}
			rows = rows[p.Dim:]
		}
	}
	return nil
}

func (s *hostStore) Copy(dst, src PageID, slots int) error {
	s.copy(&s.k, dst, src, slots)
	s.copy(&s.v, dst, src, slots)
	return nil
}

func (s *hostStore) copy(p *Plane, dst, src PageID, slots int) {
	bytes, scales := p.RowBytes(), &p.Scales
	for head := range s.cfg.NumKVHeads {
		for slot := range slots {
			to, from := p.Offset(dst, head, slot), p.Offset(src, head, slot)
			copy(p.Data[to:to+bytes], p.Data[from:from+bytes])
			if scales.Kind == TokenScale {
				scales.Values[scales.Offset(dst, head, slot)] = scales.Values[scales.Offset(src, head, slot)]
			}
		}
	}
}

func (s *hostStore) Close() error {
	var err error
	for _, m := range s.memory {
		err = errors.Join(err, m.release())
	}
	return err
}
