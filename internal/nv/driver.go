package nv

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"
)

// ErrNoGPU is wrapped by the errors of a machine without a usable GPU.
var ErrNoGPU = errors.New("no GPU")

// library is the driver's file name on Linux.
const library = "libcuda.so.1"

// Driver is the loaded driver library: one address a function.
type Driver struct {
	fn [numFuncs]uintptr
}

// Open loads libcuda.so.1 and initialises it, once a process; later calls return
// the first one's result. The error of a machine without the library wraps
// [ErrNoGPU].
var Open = sync.OnceValues(func() (*Driver, error) { return load(library) })

// load opens the driver library at path.
func load(path string) (*Driver, error) {
	handle, err := dlopen(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoGPU, err)
	}
	d := new(Driver)
	for i, name := range names {
		if d.fn[i], err = dlsym(handle, name); err != nil {
			return nil, fmt.Errorf("%w: %s has no %s: the driver is too old", ErrNoGPU, path, name)
		}
	}
	if err := d.call(fnInit, 0); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoGPU, err)
	}
	return d, nil
}

// call calls a driver function and turns a result other than CUDA_SUCCESS into
// an [*Error]. A pointer must become a uintptr in the argument list itself: that
// is what keeps its target alive and on the heap during the call.
//
//go:uintptrescapes
func (d *Driver) call(f funcID, args ...uintptr) error {
	if code := callC(d.fn[f], args...); code != success {
		return d.failure(f, code)
	}
	return nil
}

// Version is the newest CUDA version that the driver supports, such as 13000.
func (d *Driver) Version() (int, error) {
	var v int32
	err := d.call(fnDriverGetVersion, uintptr(unsafe.Pointer(&v)))
	return int(v), err
}
