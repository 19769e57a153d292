package kv

import (
	"fmt"
	"sync/atomic"

	"github.com/flashdec/flashdec/attn"
)

// Memory is memory of a device that the host cannot read. The zero value is none.
type Memory struct {
	Address uint64 // in the device's address space
	Bytes   int
	// Freed, where set, tells that the memory has been given back.
	Freed *atomic.Bool
}

// check reports memory that has been given back.
func (m *Memory) check(name string) error {
	if m.Freed != nil && m.Freed.Load() {
		return fmt.Errorf("%w: %s lie in device memory that has been given back", ErrFreed, name)
	}
	return nil
}

// OnDevice reports whether keys or values lie in a device's memory, where the host
// cannot read them.
func (v *View) OnDevice() bool {
	return v != nil && (v.K.Device.Address != 0 || v.V.Device.Address != 0)
}

// OnHost reports keys or values that the host cannot read. It wraps
// [attn.ErrShape].
func (v *View) OnHost() error {
	if v.OnDevice() {
		return fmt.Errorf("%w: the keys or values lie in a device's memory, want the host's", attn.ErrShape)
	}
	return nil
}
