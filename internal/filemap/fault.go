package filemap

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"unsafe"
)

// ErrCut: bytes of a mapped file are not there any more, since it was cut short, or its disk failed.
var ErrCut = errors.New("cut short while it was in use")

// Recover makes an error that wraps ErrCut of a read of a mapped file's bytes that are gone, which would end
// the process; where *err has one already, that stays. It guards a function, in the goroutine that it runs in
// and in no other, as
//
//	defer filemap.Recover(&err, debug.SetPanicOnFault(true))
//
// and puts back what was set before. Other panics, faults elsewhere in memory among them, go on.
func Recover(err *error, before bool) {
	debug.SetPanicOnFault(before)
	r := recover()
	if r == nil {
		return
	}
	cut := cutShort(r)
	if cut == nil {
		panic(r)
	}
	if *err == nil {
		*err = cut
	}
}

// cutShort is the error that a panic means, nil for one that has nothing to do with mapped files.
func cutShort(r any) error {
	fault, ok := r.(interface {
		runtime.Error
		Addr() uintptr
	})
	if !ok {
		return nil
	}
	mapped.Lock()
	defer mapped.Unlock()
	for at, m := range mapped.files {
		if offset := fault.Addr() - at; offset < uintptr(m.size) {
			return fmt.Errorf("%s: %w: byte %d of %d cannot be read", m.path, ErrCut, offset, m.size)
		}
	}
	return nil
}

// mapped is what is mapped now, by its first address.
var mapped = struct {
	sync.Mutex
	files map[uintptr]mapping
}{files: map[uintptr]mapping{}}

type mapping struct {
	path string
	size int
}

func address(data []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(data))) }

// note remembers a mapping of a file, so that faults in it are known as the file's.
func note(data []byte, path string) {
	mapped.Lock()
	defer mapped.Unlock()
	mapped.files[address(data)] = mapping{path, len(data)}
}

// forget undoes note, before the memory goes to others.
func forget(data []byte) {
	mapped.Lock()
	defer mapped.Unlock()
	delete(mapped.files, address(data))
}
