//go:build amd64 || arm64

package nv

import (
	"fmt"

	"github.com/ebitengine/purego"
)

// dlopen loads a library. Its error says that there is none, whatever the loader's
// own words are.
func dlopen(path string) (uintptr, error) {
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return 0, fmt.Errorf("%s not found", path)
	}
	return handle, nil
}

func dlsym(handle uintptr, name string) (uintptr, error) { return purego.Dlsym(handle, name) }

// callC calls a C function. As for [Driver.call], a pointer becomes a uintptr in
// the argument list.
//
//go:uintptrescapes
func callC(fn uintptr, args ...uintptr) Result {
	r, _, _ := purego.SyscallN(fn, args...)
	return Result(uint32(r))
}
