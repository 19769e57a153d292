package backendtest

import (
	"os"
	"syscall"
	"testing"
)

// reserve returns address space of which pages come to exist when touched.
func reserve(t testing.TB, bytes int) []byte {
	t.Helper()
	data, err := syscall.Mmap(-1, 0, bytes, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_PRIVATE|syscall.MAP_ANON|syscall.MAP_NORESERVE)
	if err != nil {
		t.Fatalf("%d bytes of address space: %v", bytes, err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(data) })
	return data
}

// beforeCliff copies data to where the byte after it cannot be read.
func beforeCliff(t testing.TB, data []byte) []byte {
	t.Helper()
	page := os.Getpagesize()
	whole := (len(data) + page - 1) / page * page
	memory := reserve(t, whole+page)
	if err := syscall.Mprotect(memory[whole:], syscall.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	copied := memory[whole-len(data) : whole : whole]
	copy(copied, data)
	return copied
}
