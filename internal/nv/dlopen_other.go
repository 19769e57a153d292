//go:build !linux || !(amd64 || arm64)

package nv

import (
	"fmt"
	"runtime"
)

func dlopen(string) (uintptr, error) {
	return 0, fmt.Errorf("this is %s/%s, and GPUs are used on linux/amd64 and linux/arm64 alone", runtime.GOOS, runtime.GOARCH)
}

// Nothing is reached without a library.

func dlsym(uintptr, string) (uintptr, error) { panic("nv: no library") }

func callC(uintptr, ...uintptr) Result { panic("nv: no library") }
