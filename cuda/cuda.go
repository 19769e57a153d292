// Package cuda computes decode attention on an NVIDIA GPU, in a program built
// with CGO_ENABLED=0 and without a CUDA toolkit. Importing it makes the program
// dynamically linked: the driver is loaded by [Open], not before.
package cuda

import (
	"github.com/flashdec/flashdec/backend"
	icuda "github.com/flashdec/flashdec/internal/cuda"
	"github.com/flashdec/flashdec/internal/nv"
)

// ErrNoGPU is wrapped by the errors of [Open] on a machine without a GPU that it
// can use; the text says what is missing.
var ErrNoGPU = nv.ErrNoGPU

// Options say which GPU to open. The zero value is the first.
type Options struct {
	Device int // the driver's ordinal
}

// Open opens a GPU of compute capability 8.0 or newer as a backend.
func Open(o Options) (backend.Backend, error) {
	b, err := icuda.Open(icuda.Config{Device: o.Device})
	if err != nil {
		return nil, err
	}
	return b, nil
}
