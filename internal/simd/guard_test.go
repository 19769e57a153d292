//go:build unix

package simd

import (
	"os"
	"syscall"
	"testing"
	"unsafe"
)

// guarded returns n bytes between two inaccessible pages: at the end of their
// room, so that reading past the last byte is a fault, or at its beginning.
func guarded(t testing.TB, n int, atEnd bool) []byte {
	t.Helper()
	page := os.Getpagesize()
	room := (n + page - 1) / page * page
	b, err := syscall.Mmap(-1, 0, room+2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Munmap(b); err != nil {
			t.Error(err)
		}
	})
	for _, guard := range [][]byte{b[:page], b[page+room:]} {
		if err := syscall.Mprotect(guard, syscall.PROT_NONE); err != nil {
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
