//go:build unix

package tensorfile

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapFile maps the first size bytes of f, read-only. Shared, not private: no page is ever copied, and
// every process that has the model open shares the same ones.
func mapFile(f *os.File, size int) (data []byte, unmap func() error, err error) {
	data, err = unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, os.NewSyscallError("mmap", err)
	}
	return data, func() error { return os.NewSyscallError("munmap", unix.Munmap(data)) }, nil
}

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
