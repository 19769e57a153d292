// Package filemap maps files into memory, where the system can, for the readers of file formats.
package filemap

import (
	"errors"
	"fmt"
	"math"
	"os"
)

var (
	// ErrNotRegular: a directory, pipe or device, which has no bytes to map.
	ErrNotRegular = errors.New("not a regular file")
	// ErrTooLarge: more bytes than the address space has.
	ErrTooLarge = errors.New("passes the address space")
)

// Open returns the bytes of a regular file, read-only, and what gives them back. The file must keep
// its length meanwhile: reading what was cut off faults, see [Recover]. Where the system has no mapping,
// the bytes are a copy.
//
// Errors name the path, and wrap ErrNotRegular, ErrTooLarge or os's.
func Open(path string) (data []byte, unmap func() error, err error) {
	// Asked before opening, because opening a pipe waits for its writer.
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s: %v is %w", path, info.Mode(), ErrNotRegular)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close() // a mapping outlives its descriptor
	if info, err = f.Stat(); err != nil {
		return nil, nil, err
	}
	if info.Size() > math.MaxInt {
		return nil, nil, fmt.Errorf("%s: %d bytes: %w", path, info.Size(), ErrTooLarge)
	}
	if info.Size() == 0 { // which the system refuses to map
		return nil, func() error { return nil }, nil
	}
	data, unmap, err = mapFile(f, int(info.Size()))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return data, unmap, nil
}

// Map is Open for the first size bytes, at least 1, of an open file, which may be closed afterwards.
func Map(f *os.File, size int) (data []byte, unmap func() error, err error) { return mapFile(f, size) }
