package nv

import (
	"fmt"
	"unsafe"
)

// Pointer is an address in device memory.
type Pointer uint64

// MemInfo is the free and the total device memory, in bytes.
func (c *Context) MemInfo() (free, total uint64, err error) {
	var f, t uintptr
	err = c.driver.call(fnMemGetInfo, uintptr(unsafe.Pointer(&f)), uintptr(unsafe.Pointer(&t)))
	return uint64(f), uint64(t), err
}

// Alloc takes device memory, aligned to at least 256 bytes. Where there is too
// little, the error says what was asked and what is free.
func (c *Context) Alloc(bytes int) (Pointer, error) {
	var p Pointer
	err := c.driver.call(fnMemAlloc, uintptr(unsafe.Pointer(&p)), uintptr(bytes))
	if !Is(err, OutOfMemory) {
		return p, err
	}
	free, total, infoErr := c.MemInfo()
	if infoErr != nil {
		return 0, err
	}
	return 0, fmt.Errorf("asked for %d bytes of device memory, %d of %d are free: %w", bytes, free, total, err)
}

// Free gives memory of [Context.Alloc] back. Freeing 0 does nothing.
func (c *Context) Free(p Pointer) error {
	if p == 0 {
		return nil
	}
	return c.driver.call(fnMemFree, uintptr(p))
}

// Upload copies src to the device, after what is in the stream. With ordinary
// (pageable) memory, src may be reused when it returns.
func Upload[T any](s *Stream, dst Pointer, src []T) error {
	if len(src) == 0 {
		return nil
	}
	return s.ctx.driver.call(fnMemcpyHtoDAsync, uintptr(dst), uintptr(unsafe.Pointer(&src[0])), size(src), s.handle)
}

// Download copies from the device to dst and waits until it is there.
func Download[T any](s *Stream, dst []T, src Pointer) error {
	if len(dst) == 0 {
		return nil
	}
	err := s.ctx.driver.call(fnMemcpyDtoHAsync, uintptr(unsafe.Pointer(&dst[0])), uintptr(src), size(dst), s.handle)
	if err != nil {
		return err
	}
	return s.Synchronize()
}

// Copy copies bytes inside the device's memory, in stream order.
func (s *Stream) Copy(dst, src Pointer, bytes int) error {
	return s.ctx.driver.call(fnMemcpyDtoDAsync, uintptr(dst), uintptr(src), uintptr(bytes), s.handle)
}

// Fill sets bytes at p, in stream order.
func (s *Stream) Fill(p Pointer, value byte, bytes int) error {
	return s.ctx.driver.call(fnMemsetD8Async, uintptr(p), uintptr(value), uintptr(bytes), s.handle)
}

// Fill32 sets count 32-bit words at p, in stream order.
func (s *Stream) Fill32(p Pointer, value uint32, count int) error {
	return s.ctx.driver.call(fnMemsetD32Async, uintptr(p), uintptr(value), uintptr(count), s.handle)
}

func size[T any](s []T) uintptr { return uintptr(len(s)) * unsafe.Sizeof(s[0]) }
