package nv

import (
	"bytes"
	"fmt"
	"runtime"
	"unsafe"
)

// Attribute is a CUdevice_attribute.
type Attribute int32

const (
	MultiprocessorCount     Attribute = 16
	ComputeCapabilityMajor  Attribute = 75
	ComputeCapabilityMinor  Attribute = 76
	L2CacheSize             Attribute = 38
	MaxSharedMemoryPerBlock Attribute = 97 // with opt-in
	ClusterLaunch           Attribute = 120
)

// Device is a GPU by its ordinal.
type Device struct {
	driver *Driver
	handle int32
}

// DeviceCount is the number of GPUs.
func (d *Driver) DeviceCount() (int, error) {
	var n int32
	err := d.call(fnDeviceGetCount, uintptr(unsafe.Pointer(&n)))
	return int(n), err
}

// Device returns the GPU of an ordinal, counted from 0. It wraps [ErrNoGPU] when
// there is none.
func (d *Driver) Device(ordinal int) (Device, error) {
	n, err := d.DeviceCount()
	if err != nil {
		return Device{}, err
	}
	if ordinal < 0 || ordinal >= n {
		return Device{}, fmt.Errorf("%w: asked for device %d, the driver has %d", ErrNoGPU, ordinal, n)
	}
	dev := Device{driver: d}
	err = d.call(fnDeviceGet, uintptr(unsafe.Pointer(&dev.handle)), uintptr(ordinal))
	return dev, err
}

// Name is the GPU's own name.
func (d Device) Name() (string, error) {
	var buf [256]byte
	if err := d.driver.call(fnDeviceGetName, uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)), uintptr(d.handle)); err != nil {
		return "", err
	}
	name, _, _ := bytes.Cut(buf[:], []byte{0})
	return string(name), nil
}

// Attribute is one number about the GPU.
func (d Device) Attribute(a Attribute) (int, error) {
	var v int32
	err := d.driver.call(fnDeviceGetAttribute, uintptr(unsafe.Pointer(&v)), uintptr(a), uintptr(d.handle))
	return int(v), err
}

// Context is a device's primary context: the one that the CUDA runtime, and so
// every other library of the process, uses too.
type Context struct {
	driver *Driver
	device Device
	handle uintptr
}

// Retain opens the device's primary context.
func (d Device) Retain() (*Context, error) {
	c := &Context{driver: d.driver, device: d}
	if err := d.driver.call(fnDevicePrimaryCtxRetain, uintptr(unsafe.Pointer(&c.handle)), uintptr(d.handle)); err != nil {
		return nil, err
	}
	return c, nil
}

// Release gives the primary context back.
func (c *Context) Release() error {
	return c.driver.call(fnDevicePrimaryCtxRelease, uintptr(c.device.handle))
}

// Device is the context's GPU.
func (c *Context) Device() Device { return c.device }

// Do runs f on an OS thread whose current context is c. Every method of what a
// context owns must run inside Do, or on a thread that [Context.SetCurrent]
// prepared.
func (c *Context) Do(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := c.SetCurrent(); err != nil {
		return err
	}
	return f()
}

// SetCurrent makes c the calling OS thread's context.
func (c *Context) SetCurrent() error {
	return c.driver.call(fnCtxSetCurrent, c.handle)
}

// Synchronize waits for everything that was started in the context.
func (c *Context) Synchronize() error {
	return c.driver.call(fnCtxSynchronize)
}
