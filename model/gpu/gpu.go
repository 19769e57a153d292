// Package gpu runs package model's models on an NVIDIA GPU, in a program built with
// CGO_ENABLED=0 and without a CUDA toolkit:
//
//	g, err := cuda.Open(cuda.Options{})
//	device, err := gpu.New(g)
//	eng, err := flashdec.Open(flashdec.Options{Backend: g})
//	runner, err := model.NewRunner(m, model.Options{Engine: eng, Device: device})
//
// Weights and caches lie in the GPU's memory. Attention is package cuda's. Products of
// up to eight rows are this package's: they read each matrix once for four rows, and
// keep these in float32. More rows, of a prompt, go to cuBLAS where there is one. A step
// of one token a sequence is recorded as a CUDA graph and replayed while its plan fits.
package gpu

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/cuda"
	"github.com/flashdec/flashdec/internal/cuda/build"
	"github.com/flashdec/flashdec/internal/network"
	"github.com/flashdec/flashdec/internal/nv"
)

// BLASEnv names cuBLAS's library, or the folder of it, where the loader does not find it.
const BLASEnv = "FLASHDEC_CUBLAS"

// Device is a GPU that computes models. It is a model.Device.
type Device struct {
	gpu     *cuda.GPU
	ctx     *nv.Context
	stream  *nv.Stream // the GPU's own
	module  *nv.Module
	kernels [numKernels]*nv.Function
	blas    *nv.BLAS // nil: none
	noBLAS  error    // why

	multiprocessors int
	sharedLimit     int  // bytes of a block
	overlaps        bool // kernels may start before the one ahead has ended

	// fill brings a matrix's rows to the device: (*uploader).rowsOf, but in measurements of made-up weights.
	fill func(u *uploader, to matrix, m *network.Matrix) error

	mu     sync.Mutex // held over every use of the GPU
	loaded map[*network.Network]*weights
	closed bool
}

var _ network.Device = (*Device)(nil)

// New loads the kernels, and cuBLAS where there is one: [Device.BLAS] tells. Close the device before the GPU. It
// wraps [cuda.ErrNoGPU] where g is nil, or what the driver or a cuBLAS that [BLASEnv] names refuses.
func New(g *cuda.GPU) (*Device, error) {
	if g == nil {
		return nil, fmt.Errorf("%w: the GPU is nil, want one that cuda.Open opened", nv.ErrNoGPU)
	}
	driver, err := nv.Open()
	if err != nil {
		return nil, err
	}
	dev, err := driver.Device(g.Device())
	if err != nil {
		return nil, err
	}
	d := &Device{gpu: g, fill: (*uploader).rowsOf, loaded: map[*network.Network]*weights{}}
	var major, minor int
	for _, a := range []struct {
		value *int
		which nv.Attribute
	}{
		{&major, nv.ComputeCapabilityMajor},
		{&minor, nv.ComputeCapabilityMinor},
		{&d.multiprocessors, nv.MultiprocessorCount},
		{&d.sharedLimit, nv.MaxSharedMemoryPerBlock},
	} {
		if *a.value, err = dev.Attribute(a.which); err != nil {
			return nil, err
		}
	}
	d.sharedLimit -= staticShared
	target := build.Model.For(major, minor)
	d.overlaps = target.Major != 8 // its kernels do not wait for those ahead
	if d.ctx, err = dev.Retain(); err != nil {
		return nil, err
	}
	d.stream = d.ctx.ForeignStream(uintptr(g.Stream()))
	if err := d.ctx.Do(func() error { return d.start(target) }); err != nil {
		return nil, errors.Join(err, d.ctx.Release())
	}
	return d, nil
}

// start loads the kernels and cuBLAS. One that the environment names must be there.
func (d *Device) start(t build.Target) error {
	if err := d.loadKernels(t); err != nil {
		return err
	}
	where := os.Getenv(BLASEnv)
	d.blas, d.noBLAS = nv.OpenBLAS(d.stream, where)
	switch {
	case d.noBLAS == nil:
		return nil
	case where != "":
		return errors.Join(fmt.Errorf("%s: %w", BLASEnv, d.noBLAS), d.module.Unload())
	case !errors.Is(d.noBLAS, nv.ErrNoBLAS):
		return errors.Join(d.noBLAS, d.module.Unload())
	}
	return nil
}

// BLAS is nil where cuBLAS multiplies the rows of prompts. Elsewhere it says what was
// looked for: prompts then take several times as long.
func (d *Device) BLAS() error {
	if d == nil {
		return errClosed
	}
	return d.noBLAS
}

var errClosed = fmt.Errorf("gpu: %w", backend.ErrClosed)

// Close gives the kernels back. Runners on the device must be closed.
func (d *Device) Close() error {
	if d == nil {
		return errClosed
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.closed:
		return errClosed
	case len(d.loaded) > 0:
		return fmt.Errorf("gpu: the weights of %d models are in use", len(d.loaded))
	}
	d.closed = true
	err := d.ctx.Do(func() error {
		err := d.stream.Synchronize()
		if d.blas != nil {
			err = errors.Join(err, d.blas.Close())
		}
		return errors.Join(err, d.module.Unload())
	})
	return errors.Join(err, d.ctx.Release())
}

// memory is device memory that goes back together.
type memory struct {
	ctx  *nv.Context
	list []nv.Pointer
}

// take takes memory, none for 0 bytes.
func (m *memory) take(bytes int) (nv.Pointer, error) {
	if bytes == 0 {
		return 0, nil
	}
	p, err := m.ctx.Alloc(bytes)
	if err != nil {
		return 0, fmt.Errorf("gpu: %w", err)
	}
	m.list = append(m.list, p)
	return p, nil
}

func (m *memory) free() error {
	var err error
	for _, p := range m.list {
		err = errors.Join(err, m.ctx.Free(p))
	}
	m.list = nil
	return err
}
