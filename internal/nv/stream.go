package nv

import "unsafe"

// Stream is a queue of device work.
type Stream struct {
	ctx    *Context
	handle uintptr
}

// nonBlocking is CU_STREAM_NON_BLOCKING: no implicit order with the null stream.
const nonBlocking = 1

// NewStream makes a stream.
func (c *Context) NewStream() (*Stream, error) {
	s := &Stream{ctx: c}
	if err := c.driver.call(fnStreamCreate, uintptr(unsafe.Pointer(&s.handle)), nonBlocking); err != nil {
		return nil, err
	}
	return s, nil
}

// ForeignStream wraps a CUstream that another part of the program owns; 0 is the
// null stream.
func (c *Context) ForeignStream(handle uintptr) *Stream {
	return &Stream{ctx: c, handle: handle}
}

// Handle is the CUstream.
func (s *Stream) Handle() uintptr { return s.handle }

// Destroy gives the stream back once its work is done.
func (s *Stream) Destroy() error { return s.ctx.driver.call(fnStreamDestroy, s.handle) }

// Synchronize waits until the stream is empty.
func (s *Stream) Synchronize() error { return s.ctx.driver.call(fnStreamSynchronize, s.handle) }

// Done reports whether the stream is empty.
func (s *Stream) Done() (bool, error) {
	err := s.ctx.driver.call(fnStreamQuery, s.handle)
	if Is(err, NotReady) {
		return false, nil
	}
	return err == nil, err
}

// Wait makes the stream's further work wait for an event.
func (s *Stream) Wait(e *Event) error {
	return s.ctx.driver.call(fnStreamWaitEvent, s.handle, e.handle, 0)
}

// Event is a mark in a stream.
type Event struct {
	ctx    *Context
	handle uintptr
}

// NewEvent makes an event that keeps the time.
func (c *Context) NewEvent() (*Event, error) {
	e := &Event{ctx: c}
	if err := c.driver.call(fnEventCreate, uintptr(unsafe.Pointer(&e.handle)), 0); err != nil {
		return nil, err
	}
	return e, nil
}

// Destroy gives the event back.
func (e *Event) Destroy() error { return e.ctx.driver.call(fnEventDestroy, e.handle) }

// Record sets the event after the stream's work so far.
func (e *Event) Record(s *Stream) error {
	return e.ctx.driver.call(fnEventRecord, e.handle, s.handle)
}

// Synchronize waits for the event.
func (e *Event) Synchronize() error { return e.ctx.driver.call(fnEventSynchronize, e.handle) }

// Since is the time from an earlier event to e, in milliseconds.
func (e *Event) Since(earlier *Event) (float32, error) {
	var ms float32
	err := e.ctx.driver.call(fnEventElapsedTime, uintptr(unsafe.Pointer(&ms)), earlier.handle, e.handle)
	return ms, err
}
