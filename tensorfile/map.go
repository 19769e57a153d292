package tensorfile

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/flashdec/flashdec/internal/filemap"
)

// openMapping maps the file; its errors are this package's.
func openMapping(path string) (data []byte, unmap func() error, err error) {
	data, unmap, err = filemap.Open(path)
	switch {
	case errors.Is(err, filemap.ErrNotRegular):
		err = fmt.Errorf("%w: %w", err, ErrFormat)
	case errors.Is(err, filemap.ErrTooLarge):
		err = fmt.Errorf("%w: %w", err, ErrTooLarge)
	}
	return data, unmap, err
}

// contains tells whether part is some of whole's bytes.
func contains(whole, part []byte) bool {
	first := uintptr(unsafe.Pointer(unsafe.SliceData(whole)))
	at := uintptr(unsafe.Pointer(unsafe.SliceData(part)))
	return len(part) > 0 && at >= first && at-first+uintptr(len(part)) <= uintptr(len(whole))
}
