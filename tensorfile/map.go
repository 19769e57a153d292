package tensorfile

import (
	"fmt"
	"math"
	"os"
	"unsafe"
)

// openMapping returns the bytes of a regular file and what gives them back.
func openMapping(path string) (data []byte, unmap func() error, err error) {
	// Asked before opening, because opening a pipe waits for its writer.
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s: %v is not a regular file: %w", path, info.Mode(), ErrFormat)
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
		return nil, nil, fmt.Errorf("%s: %d bytes pass the address space: %w", path, info.Size(), ErrTooLarge)
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

// contains tells whether part is some of whole's bytes.
func contains(whole, part []byte) bool {
	first := uintptr(unsafe.Pointer(unsafe.SliceData(whole)))
	at := uintptr(unsafe.Pointer(unsafe.SliceData(part)))
	return len(part) > 0 && at >= first && at-first+uintptr(len(part)) <= uintptr(len(whole))
}
