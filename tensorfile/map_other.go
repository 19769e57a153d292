//go:build !unix

package tensorfile

import (
	"errors"
	"io"
	"os"
)

// mapFile reads the first size bytes of f where there is no mmap.
func mapFile(f *os.File, size int) (data []byte, unmap func() error, err error) {
	data = make([]byte, size)
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, nil, err
	}
	return data, func() error { return nil }, nil
}

// release has no counterpart here: what mapFile read stays.
func release([]byte) {}

// temporaryFile has no counterpart here: an open file keeps its name.
func temporaryFile() (*os.File, error) { return nil, errors.ErrUnsupported }
