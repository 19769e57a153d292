package cuda

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/internal/nv"
	"github.com/flashdec/flashdec/kv"
)

// Store is a [kv.Store] in device memory. What it does takes its place in the
// backend's stream: nothing waits but a write that may have to fail.
type Store struct {
	b       *Backend
	cfg     kv.Config
	k, v    side
	staging nv.Pointer // float32, for tokens that come from the host
	staged  int        // bytes it has
	spoilt  nv.Pointer // int32: a number had no code
	memory  []nv.Pointer
	freed   atomic.Bool
}

// side is the keys or the values of a store.
type side struct {
	host   kv.Plane // as views show it
	device Plane
	dim    int
}

// NewStore takes device memory for the pages of a configuration that is valid.
// Where there is too little, the error says what was asked and what is free, and
// all that was taken has been given back.
func (b *Backend) NewStore(cfg kv.Config) (*Store, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed.Load() {
		return nil, errClosed
	}
	s := &Store{b: b, cfg: cfg}
	err := b.ctx.Do(func() error {
		if err := s.reserve(); err != nil {
			return errors.Join(err, s.free())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	b.owners[s] = struct{}{}
	return s, nil
}

func (s *Store) reserve() error {
	k, v := s.cfg.Planes()
	for _, x := range [...]struct {
		to    *side
		plane kv.Plane
		name  string
	}{{&s.k, k, "keys"}, {&s.v, v, "values"}} {
		if err := s.place(x.to, x.plane); err != nil {
			return fmt.Errorf("%s: %w", x.name, err)
		}
	}
	at, err := s.alloc(4)
	if err != nil {
		return err
	}
	s.spoilt = at
	return s.b.stream.Fill32(at, 0, 1)
}

// place gives a plane its memory.
func (s *Store) place(x *side, p kv.Plane) error {
	x.dim, x.device = p.Dim, plane(p)
	rows := s.cfg.NumPages * s.cfg.PageSize * s.cfg.NumKVHeads
	bytes := rows * p.RowBytes()
	at, err := s.alloc(bytes)
	if err != nil {
		return err
	}
	x.device.Data, p.Device = at, kv.Memory{Address: uint64(at), Bytes: bytes, Freed: &s.freed}
	if err := s.placeScales(x, &p, rows); err != nil {
		return err
	}
	x.host = p
	return nil
}

func (s *Store) placeScales(x *side, p *kv.Plane, rows int) error {
	n := len(p.Scales.Values)
	if p.Scales.Kind == kv.TokenScale {
		n = rows
	}
	if n == 0 {
		return nil
	}
	at, err := s.alloc(n * 4)
	if err != nil {
		return err
	}
	x.device.Scales.Values = at
	p.Scales.Device = kv.Memory{Address: uint64(at), Bytes: n * 4, Freed: &s.freed}
	return nv.Upload(s.b.stream, at, p.Scales.Values)
}

func (s *Store) alloc(bytes int) (nv.Pointer, error) {
	p, err := s.b.ctx.Alloc(bytes)
	if err != nil {
		return 0, fmt.Errorf("cuda: %w", err)
	}
	s.memory = append(s.memory, p)
	return p, nil
}

// Planes implements [kv.Store].
func (s *Store) Planes() (k, v kv.Plane) { return s.k.host, s.v.host }

// do runs f under the backend's lock, in its context, unless either is closed.
func (s *Store) do(f func() error) error {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	if s.b.closed.Load() {
		return errClosed
	}
	if s.freed.Load() {
		return fmt.Errorf("cuda: %w: the cache is closed", kv.ErrFreed)
	}
	return s.b.ctx.Do(f)
}

// Write implements [kv.Store]: the numbers go to the device and become elements
// there.
func (s *Store) Write(page kv.PageID, slot int, k, v []float32) error {
	return s.do(func() error {
		if err := s.stage((len(k) + len(v)) * 4); err != nil {
			return err
		}
		values := s.staging + nv.Pointer(len(k)*4)
		if err := errors.Join(nv.Upload(s.b.stream, s.staging, k), nv.Upload(s.b.stream, values, v)); err != nil {
			return err
		}
		return s.write(page, slot, len(k)/(s.cfg.NumKVHeads*s.cfg.KeyDim), s.staging, values)
	})
}

// WriteDevice is Write for the keys [n, NumKVHeads, KeyDim] and values [n,
// NumKVHeads, ValueDim] of n tokens, float32 in device memory.
func (s *Store) WriteDevice(page kv.PageID, slot, n int, k, v nv.Pointer) error {
	return s.do(func() error { return s.write(page, slot, n, k, v) })
}

func (s *Store) write(page kv.PageID, slot, n int, k, v nv.Pointer) error {
	if n == 0 {
		return nil
	}
	mayFail := false
	for _, x := range [...]struct {
		side *side
		from nv.Pointer
	}{{&s.k, k}, {&s.v, v}} {
		p := x.side.params()
		p.from, p.spoilt, p.page, p.slot = x.from, s.spoilt, int64(page), int32(slot)
		if err := s.launch(&p, n); err != nil {
			return err
		}
		mayFail = mayFail || x.side.mayFail()
	}
	if mayFail {
		return s.checkSpoilt()
	}
	return nil
}

// mayFail: integers with scales that tokens share have no code for what is not
// finite.
func (x *side) mayFail() bool {
	return (x.host.Type == kv.I8 || x.host.Type == kv.I4) && x.host.Scales.Kind != kv.TokenScale
}

func (s *Store) checkSpoilt() error {
	spoilt := make([]int32, 1)
	if err := nv.Download(s.b.stream, spoilt, s.spoilt); err != nil || spoilt[0] == 0 {
		return err
	}
	return errors.Join(
		fmt.Errorf("cuda: %w: a number has no code in %v or %v with shared scales", kv.ErrNotFinite, s.k.host.Type, s.v.host.Type),
		s.b.stream.Fill32(s.spoilt, 0, 1),
	)
}

// Copy implements [kv.Store].
func (s *Store) Copy(dst, src kv.PageID, slots int) error {
	if slots == 0 {
		return nil
	}
	return s.do(func() error {
		for _, x := range [...]*side{&s.k, &s.v} {
			p := x.params()
			p.page, p.source = int64(dst), int64(src)
			if err := s.launch(&p, slots); err != nil {
				return err
			}
		}
		return nil
	})
}

func (x *side) params() storeParams {
	return storeParams{
		plane: x.device.params(), scales: x.device.Scales.params(),
		dim: int32(x.dim), rowBytes: int32(x.host.RowBytes()), kind: int32(x.host.Type),
	}
}

func (s *Store) launch(p *storeParams, slots int) error {
	if s.cfg.NumKVHeads > maxGridYZ {
		return fmt.Errorf("cuda: %w: %d KV heads, want at most %d in a GPU's cache", attn.ErrShape, s.cfg.NumKVHeads, maxGridYZ)
	}
	fn, err := s.b.module.Function("store_rows")
	if err != nil {
		return err
	}
	return fn.Launch(s.b.stream, nv.Launch{
		Grid:  nv.Dim3{X: uint32(slots), Y: uint32(s.cfg.NumKVHeads), Z: 1},
		Block: nv.Dim3{X: generalBlock, Y: 1, Z: 1},
	}, unsafe.Pointer(p))
}

// stage makes room for tokens from the host. What was put there before has been
// read by the time that the stream comes to what follows.
func (s *Store) stage(bytes int) error {
	if bytes <= s.staged {
		return nil
	}
	if s.staging != 0 {
		if err := errors.Join(s.b.stream.Synchronize(), s.b.ctx.Free(s.staging)); err != nil {
			return err
		}
		s.staging, s.staged = 0, 0
	}
	p, err := s.b.ctx.Alloc(bytes)
	if err != nil {
		return fmt.Errorf("cuda: %w", err)
	}
	s.staging, s.staged = p, bytes
	return nil
}

// Close implements [kv.Store], once what is in the stream is done. Views of the
// store fail [kv.View.Validate] from then on.
func (s *Store) Close() error {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	if s.freed.Load() {
		return nil // by an earlier call, or the backend's Close
	}
	delete(s.b.owners, s)
	return s.b.ctx.Do(func() error { return errors.Join(s.b.stream.Synchronize(), s.free()) })
}

func (s *Store) free() error {
	s.freed.Store(true)
	var err error
	for _, p := range append(s.memory, s.staging) {
		err = errors.Join(err, s.b.ctx.Free(p))
	}
	s.memory, s.staging = nil, 0
	return err
}

var _ kv.Store = (*Store)(nil)
