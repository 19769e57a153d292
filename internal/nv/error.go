package nv

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"
)

// Result is a CUresult.
type Result uint32

const (
	success     Result = 0
	OutOfMemory Result = 2   // CUDA_ERROR_OUT_OF_MEMORY
	NotReady    Result = 600 // CUDA_ERROR_NOT_READY
)

// Error is a driver call that failed, in the driver's own words.
type Error struct {
	Code Result
	Call string // the driver function, such as cuMemAlloc_v2
	Name string // such as CUDA_ERROR_OUT_OF_MEMORY
	Text string // such as "out of memory"
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s (%d): %s", e.Call, e.Name, e.Code, e.Text)
}

// Is reports whether err is a driver error of the given code.
func Is(err error, code Result) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == code
}

func (d *Driver) failure(f funcID, code Result) error {
	return &Error{
		Code: code,
		Call: names[f],
		Name: d.text(fnGetErrorName, code, "unknown error"),
		Text: d.text(fnGetErrorString, code, "the driver does not know this code"),
	}
}

// text asks the driver for a name or description of an error code.
func (d *Driver) text(f funcID, code Result, otherwise string) string {
	var s *byte // static text in the driver
	if r := callC(d.fn[f], uintptr(code), uintptr(unsafe.Pointer(&s))); r != success || s == nil {
		return otherwise
	}
	return cString(s)
}

// cString copies a NUL-terminated string, up to a sane length.
func cString(s *byte) string {
	const longest = 1 << 12
	var b strings.Builder
	for i := range longest {
		c := *(*byte)(unsafe.Add(unsafe.Pointer(s), i))
		if c == 0 {
			break
		}
		b.WriteByte(c)
	}
	return b.String()
}
