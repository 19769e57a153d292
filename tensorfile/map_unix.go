//go:build unix

package tensorfile

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// release gives back the memory of the whole pages among mapped bytes.
func release(data []byte) {
	page := os.Getpagesize()
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(data)))) & (page - 1)
	if whole := (len(data) - skip) / page * page; whole > 0 {
		// A system that does not take the advice has more memory in use, and no other harm.
		_ = unix.Madvise(data[skip:skip+whole], unix.MADV_DONTNEED)
	}
}

// temporaryFile is a file that no name leads to: it ends with its last descriptor and mapping.
func temporaryFile() (*os.File, error) {
	f, err := os.CreateTemp("", "tensorfile-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		_ = f.Close() // err is the failure to report
		return nil, err
	}
	return f, nil
}
