//go:build !linux

package nv

import "errors"

var errNotLinux = errors.New("CUDA is used on Linux only")

func dlopen(string) (uintptr, error) { return 0, errNotLinux }

func dlsym(uintptr, string) (uintptr, error) { return 0, errNotLinux }
