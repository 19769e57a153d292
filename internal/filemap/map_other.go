//go:build !unix

package filemap

import (
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
