package cuda

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/internal/cuda/build"
	"github.com/flashdec/flashdec/internal/nv"
)

var errClosed = fmt.Errorf("cuda: %w", backend.ErrClosed)

// Config says how to open a backend. The zero value is the first GPU.
type Config struct {
	Device int // ordinal

	image []byte // of kernels, in place of the embedded one
}

// Backend computes on one GPU. It implements [backend.Backend].
type Backend struct {
	ctx             *nv.Context
	name            string
	capability      [2]int // major, minor
	multiprocessors int
	sharedLimit     int  // of a block, dynamic
	stepBytes       int  // see stepBytes
	overlap         bool // launches may start before the one ahead has ended

	closed  atomic.Bool
	mu      sync.Mutex // held over Close, and over every use of what follows
	module  *nv.Module
	tracing *nv.Module // the traced build, once a step has asked for it
	stream  *nv.Stream
	kernels map[variant]*kernel
	tuning  tuning
	costs   costs              // for the plan
	owners  map[owner]struct{} // stores, steps and graphs that are not closed
}

// owner has what the backend's context can take back: memory, or a graph.
type owner interface{ free() error }

// Open opens a GPU. Where there is none, the error wraps [nv.ErrNoGPU] and says
// what is missing.
func Open(c Config) (*Backend, error) {
	driver, err := nv.Open()
	if err != nil {
		return nil, err
	}
	dev, err := driver.Device(c.Device)
	if err != nil {
		return nil, err
	}
	b := &Backend{kernels: map[variant]*kernel{}, owners: map[owner]struct{}{}}
	if err := b.describe(dev); err != nil {
		return nil, err
	}
	if b.ctx, err = dev.Retain(); err != nil {
		return nil, err
	}
	if err := b.ctx.Do(func() error { return b.start(c.image) }); err != nil {
		return nil, errors.Join(err, b.ctx.Release())
	}
	return b, nil
}

// staticShared is above what the kernels declare statically: 8.1 KB.
const staticShared = 9 << 10

func (b *Backend) describe(dev nv.Device) error {
	var err error
	if b.name, err = dev.Name(); err != nil {
		return err
	}
	major, minor := &b.capability[0], &b.capability[1]
	for _, a := range []struct {
		value *int
		which nv.Attribute
	}{
		{major, nv.ComputeCapabilityMajor},
		{minor, nv.ComputeCapabilityMinor},
		{&b.multiprocessors, nv.MultiprocessorCount},
		{&b.sharedLimit, nv.MaxSharedMemoryPerBlock},
	} {
		if *a.value, err = dev.Attribute(a.which); err != nil {
			return err
		}
	}
	if *major < 8 {
		return fmt.Errorf("%w: %s has compute capability %d.%d, want 8.0 or newer", nv.ErrNoGPU, b.name, *major, *minor)
	}
	b.sharedLimit -= staticShared
	b.overlap = *major >= 9
	b.stepBytes = stepBytes
	b.tuning = tuningFor(b.sharedLimit)
	b.costs = costsFor(*major, b.width())
	return nil
}

// tuningFor is the geometry for a limit of shared memory: two blocks of four
// warps a multiprocessor, or one where a multiprocessor has 100 KB.
func tuningFor(sharedLimit int) tuning {
	return tuning{warps: 4, sharedBytes: min(sharedLimit, 104<<10)}
}

// start loads the kernels' module and makes the stream.
func (b *Backend) start(image []byte) error {
	var err error
	if image != nil {
		b.module, err = b.ctx.LoadModule(image)
	} else {
		b.module, err = b.loadArchive(&build.Kernels)
	}
	if err != nil {
		return err
	}
	b.stream, err = b.ctx.NewStream()
	return err
}

// loadArchive loads what an archive has for the GPU.
func (b *Backend) loadArchive(a *build.Archive) (*nv.Module, error) {
	target := a.For(b.capability[0], b.capability[1])
	image, err := a.Image(archives, target)
	if err != nil {
		return nil, fmt.Errorf("cuda: %w", err)
	}
	m, err := b.ctx.LoadModule(image)
	if err != nil {
		return nil, fmt.Errorf("cuda: loading %s of %s: %w", target.File, a.File, err)
	}
	return m, nil
}

// tracedModule loads the traced build once.
func (b *Backend) tracedModule() (*nv.Module, error) {
	var err error
	if b.tracing == nil {
		b.tracing, err = b.loadArchive(&build.Traced)
	}
	return b.tracing, err
}

// costs are what a plan is told: how many multiprocessors saturate the memory, with items
// of how many elements at most where these are multiplied as they lie and where they are
// converted first, and what a merge costs a state, in keys; docs/calibration-gpu.md.
type costs struct{ saturating, saturatingElements, saturatingConverted, mergeKeys int }

// costsFor are those of GPUs that they were measured on; others have none.
func costsFor(major, width int) costs {
	if major != 9 {
		return costs{}
	}
	return costs{saturating: width * 17 / 32, saturatingElements: 2560 * 256, saturatingConverted: 256 * 256, mergeKeys: 7}
}

// startKeys is what a block costs before its first key and after its last, about
// 3.5 µs at a multiprocessor's share of the memory's rate; docs/calibration-gpu.md.
const startKeys = 256

// width is a multiple of eight, as the number of a step's units mostly is: a wave of
// equal items then leaves few processors idle, where filling all of them would take a
// second wave (docs/calibration-gpu.md).
func (b *Backend) width() int { return b.multiprocessors &^ 7 }

// Info implements [backend.Backend].
func (b *Backend) Info() backend.Info {
	return backend.Info{
		Name:       "cuda",
		Device:     b.name,
		Kernel:     build.Kernels.For(b.capability[0], b.capability[1]).Arch(),
		Width:      b.width(),
		QueryTile:  maxRows,
		StartKeys:  startKeys,
		Saturating: b.costs.saturating,
		MergeKeys:  b.costs.mergeKeys,

		SaturatingElements:  b.costs.saturatingElements,
		SaturatingConverted: b.costs.saturatingConverted,
		Traces:              true,
	}
}

// Close implements [backend.Backend]. Stores, steps and graphs that are open are closed: the
// context is the device's primary one, and outlives the backend, with all memory
// taken in it, where another part of the process holds it too.
func (b *Backend) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed.Swap(true) {
		return errClosed
	}
	err := b.ctx.Do(func() error {
		err := b.stream.Synchronize()
		for o := range b.owners {
			err = errors.Join(err, o.free())
		}
		b.owners = nil
		if b.tracing != nil {
			err = errors.Join(err, b.tracing.Unload())
		}
		return errors.Join(err, b.stream.Destroy(), b.module.Unload())
	})
	return errors.Join(err, b.ctx.Release())
}

// giveBack frees what an owner has, unless Close has.
func (b *Backend) giveBack(o owner) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed.Load() {
		return nil
	}
	delete(b.owners, o)
	return b.ctx.Do(o.free)
}

// Do runs f on a thread whose current context is the backend's. After Close it is an error that wraps
// [backend.ErrClosed].
func (b *Backend) Do(f func() error) error {
	if b.closed.Load() {
		return errClosed
	}
	return b.ctx.Do(f)
}

// Context is the GPU's primary context, for memory, streams and events.
func (b *Backend) Context() *nv.Context { return b.ctx }

// Decode implements [backend.Backend]: the cache's planes and the queries go to
// the device, the results come back. A launch that has started runs to its end,
// some milliseconds; ctx is looked at before.
func (b *Backend) Decode(ctx context.Context, l *backend.Launch) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed.Load() {
		return errClosed
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return b.ctx.Do(func() error { return b.decode(ctx, l) })
}

func (b *Backend) decode(ctx context.Context, l *backend.Launch) (err error) {
	if l.Trace != nil {
		l.Trace.Reset(l.Plan, 0) // no other decode's, whatever happens
	}
	k, v := plane(l.KV.K), plane(l.KV.V)
	s, err := b.newStep(StepConfig{
		Shape: l.Shape, Options: l.Options, Plan: l.Plan,
		Seqs: l.KV.Seqs, PageSize: l.KV.PageSize, K: k, V: v, traced: l.Trace != nil,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.stream.Synchronize(), s.free()) }()
	bufs := Buffers{K: k, V: v}
	if err := errors.Join(
		s.putPlane(&bufs.K, &l.KV.K),
		s.putPlane(&bufs.V, &l.KV.V),
		put(s, &bufs.Q, l.Q),
	); err != nil {
		return err
	}
	if err := s.results(&bufs, l); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := s.clearTrace(b.stream); err != nil {
		return err
	}
	if err := s.Launch(b.stream, bufs); err != nil {
		return err
	}
	if err := download(b.stream, &bufs, l); err != nil || l.Trace == nil {
		return err
	}
	return s.readTrace(b.stream, l.Trace, l.Plan)
}

// Stream is the backend's own.
func (b *Backend) Stream() *nv.Stream { return b.stream }

// results takes device memory for what the launch yields.
func (s *Step) results(bufs *Buffers, l *backend.Launch) error {
	rows := l.NumQueries() * l.Shape.NumHeads
	err := s.alloc(&bufs.Out, rows*l.Shape.ValueDim*4)
	if l.States != nil {
		return errors.Join(err, s.alloc(&bufs.StateM, rows*4), s.alloc(&bufs.StateL, rows*4))
	}
	if l.LSE != nil {
		err = errors.Join(err, s.alloc(&bufs.LSE, rows*4))
	}
	return err
}

func download(stream *nv.Stream, bufs *Buffers, l *backend.Launch) error {
	if l.States != nil {
		return errors.Join(
			nv.Download(stream, l.States.M, bufs.StateM),
			nv.Download(stream, l.States.L, bufs.StateL),
			nv.Download(stream, l.States.O, bufs.Out),
		)
	}
	return errors.Join(
		nv.Download(stream, l.LSE, bufs.LSE),
		nv.Download(stream, l.Out, bufs.Out),
	)
}

var _ backend.Backend = (*Backend)(nil)
