// Package cuda computes decode attention on an NVIDIA GPU, in a program built
// with CGO_ENABLED=0 and without a CUDA toolkit. Importing it makes the program
// dynamically linked: the driver is loaded by [Open], not before.
//
// A [GPU] is a backend of package flashdec: caches in the host's memory go to it
// with every step. [GPU.NewCache] keeps a cache in the GPU's own memory, and a
// [Step] keeps a plan there, for launches over many layers, on memory and streams
// of the caller's own CUDA program too, and as a [Graph].
package cuda

import (
	"context"
	"fmt"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
	icuda "github.com/flashdec/flashdec/internal/cuda"
	"github.com/flashdec/flashdec/internal/nv"
)

var (
	// ErrNoGPU is wrapped by the errors of [Open] on a machine without a GPU that it
	// can use; the text says what is missing.
	ErrNoGPU = nv.ErrNoGPU
	// ErrStale is wrapped by the errors of steps and graphs whose plan does not fit
	// what they are to run on. It is not that of package kv, which a view wraps whose
	// sequences have changed since it was made.
	ErrStale = icuda.ErrStale
)

// Options say which GPU to open. The zero value is the first.
type Options struct {
	Device int // the driver's ordinal
}

// GPU is an open GPU. It is a [backend.Backend]. It works in the device's primary
// context, which the CUDA runtime and libraries on top of it use too.
type GPU struct {
	b      *icuda.Backend
	device int
}

var _ backend.Backend = (*GPU)(nil)

// Open opens a GPU of compute capability 8.0 or newer. It loads the driver; where there
// is none, or no such GPU, the error wraps [ErrNoGPU] and says what is missing.
func Open(o Options) (*GPU, error) {
	b, err := icuda.Open(icuda.Config{Device: o.Device})
	if err != nil {
		return nil, err
	}
	return &GPU{b, o.Device}, nil
}

// Info implements [backend.Backend].
func (g *GPU) Info() backend.Info { return g.b.Info() }

// Decode implements [backend.Backend]: what of the launch lies on the host goes to
// the GPU, the results come back.
func (g *GPU) Decode(ctx context.Context, l *backend.Launch) error { return g.b.Decode(ctx, l) }

// Close implements [backend.Backend]. It closes caches, steps and graphs that are still open: their memory goes
// back, and views of them fail [kv.View.Validate]. What is asked of the GPU afterwards, or of a step or graph of it,
// is an error that wraps [backend.ErrClosed]. Memory of [GPU.Alloc] is the caller's to free before.
func (g *GPU) Close() error { return g.b.Close() }

// Device is the driver's ordinal of the GPU.
func (g *GPU) Device() int { return g.device }

// Stream is the GPU's own stream: work of the caller's that is put there takes its
// turn among what caches do.
func (g *GPU) Stream() Stream { return Stream(g.b.Stream().Handle()) }

// Pointer is an address in the GPU's memory.
type Pointer uint64

// Stream is a CUstream of the caller's own; 0 is the GPU's stream, which caches
// use.
type Stream uintptr

func (g *GPU) stream(s Stream) *nv.Stream {
	if s == 0 {
		return g.b.Stream()
	}
	return g.b.Context().ForeignStream(uintptr(s))
}

// Alloc takes memory of the GPU, aligned to at least 256 bytes. Where there is too little, the error says what was
// asked and what is free, and the GPU stays usable; fewer bytes than 1 wrap [attn.ErrShape].
func (g *GPU) Alloc(bytes int) (p Pointer, err error) {
	if bytes < 1 {
		return 0, fmt.Errorf("cuda: %w: %d bytes of device memory, want at least 1", attn.ErrShape, bytes)
	}
	err = g.b.Do(func() error {
		at, err := g.b.Context().Alloc(bytes)
		p = Pointer(at)
		return err
	})
	return p, err
}

// Free gives memory of [GPU.Alloc] back; 0 is none. Its errors, as those of [GPU.Upload], [GPU.Download] and
// [GPU.Synchronize], are the driver's, which also reports there what failed in launches before: a fault in one leaves
// nothing to do but to close the GPU.
func (g *GPU) Free(p Pointer) error {
	return g.b.Do(func() error { return g.b.Context().Free(nv.Pointer(p)) })
}

// Upload copies numbers to memory of the GPU that has room for them, after what is in its stream. When it returns,
// from may be written again.
func (g *GPU) Upload(to Pointer, from []float32) error {
	return g.b.Do(func() error { return nv.Upload(g.b.Stream(), nv.Pointer(to), from) })
}

// Download copies len(to) numbers from the GPU once its stream has come so far, and waits until they are there.
func (g *GPU) Download(to []float32, from Pointer) error {
	return g.b.Do(func() error { return nv.Download(g.b.Stream(), to, nv.Pointer(from)) })
}

// Synchronize waits until all that was put into the stream is done.
func (g *GPU) Synchronize(s Stream) error {
	return g.b.Do(func() error { return g.stream(s).Synchronize() })
}
