//go:build unix

package main

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// release tells the system that bytes of a mapped file have been read for now: it
// may take their pages back, and reads them again if they are touched again. It
// keeps a copy of a file's tensors from costing the tensors twice.
func release(data []byte) {
	page := os.Getpagesize()
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(data)))) & (page - 1)
	if whole := (len(data) - skip) / page * page; whole > 0 {
		// A system that does not take the advice has more memory in use, and no other
		// harm.
		_ = unix.Madvise(data[skip:skip+whole], unix.MADV_DONTNEED)
	}
}
