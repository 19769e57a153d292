//go:build unix

package simd

import (
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// guarded returns n bytes between two inaccessible pages: at the end of their
// room, so that reading past the last byte is a fault, or at its beginning.
func guarded(t testing.TB, n int, atEnd bool) []byte {
	t.Helper()
	page := os.Getpagesize()
	room := (n + page - 1) / page * page
	b, err := unix.Mmap(-1, 0, room+2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Munmap(b); err != nil {
			t.Error(err)
		}
	})
	for _, guard := range [][]byte{b[:page], b[page+room:]} {
		if err := unix.Mprotect(guard, unix.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	if atEnd {
		return b[page+room-n : page+room : page+room]
	}
	return b[page : page+n : page+n]
}

// guardedFloats is guarded for float32.
func guardedFloats(t testing.TB, n int, atEnd bool) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(guarded(t, 4*n, atEnd)))), n)
}

// guardedInts is guarded for int.
func guardedInts(t testing.TB, n int, atEnd bool) []int {
	size := int(unsafe.Sizeof(0))
	return unsafe.Slice((*int)(unsafe.Pointer(unsafe.SliceData(guarded(t, size*n, atEnd)))), n)
}
