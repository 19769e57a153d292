//go:build unix

package kv

import (
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// newMemory reserves n bytes of zeros.
func newMemory(n int) (*memory, error) {
	if n == 0 {
		return new(memory), nil
	}
	data, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		if errors.Is(err, unix.ENOMEM) {
			err = fmt.Errorf("%w: %w", ErrMemory, err)
		}
		return nil, fmt.Errorf("reserving %d bytes for a cache: %w", n, err)
	}
	if n >= hugeFrom {
		adviseHuge(data)
	}
	m := &memory{data: data}
	runtime.AddCleanup(m, func(data []byte) { _ = unix.Munmap(data) }, data)
	return m, nil
}

// release gives the memory back to the system, when all of its users have. It stays mapped, and what it reads
// from then on is undefined (zeros on Linux).
func (m *memory) release() error {
	if m.users.Add(-1) > 0 || len(m.data) == 0 {
		return nil
	}
	return unix.Madvise(m.data, unix.MADV_DONTNEED)
}
