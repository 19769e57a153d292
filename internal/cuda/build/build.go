// Package build says what the embedded kernels are built for, and ties a build
// to its sources. The generator and the loader share it.
package build

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// Target is one entry of the archive.
type Target struct {
	File  string
	Major int // compute capability; 0 is PTX, for what no cubin fits
	Minor int
	Flags []string // for nvcc
}

// Arch is the instruction set that a target's kernels are in, such as sm_90a.
func (t Target) Arch() string { return strings.TrimSuffix(t.File, path.Ext(t.File)) }

// Targets, best first among those of one major version.
var Targets = []Target{
	cubin(8, 9, "89"),
	cubin(8, 6, "86"),
	cubin(8, 0, "80"),
	cubin(9, 0, "90a"),
	cubin(12, 0, "120"),
	{File: "compute_80.ptx", Flags: []string{"-arch=compute_80", "-ptx"}},
}

func cubin(major, minor int, arch string) Target {
	return Target{
		File: "sm_" + arch + ".cubin", Major: major, Minor: minor,
		Flags: []string{"-gencode=arch=compute_" + arch + ",code=sm_" + arch, "-cubin"},
	}
}

// For returns the target to load on a GPU of the given compute capability: the
// newest cubin of its major version that is not newer than itself, else PTX.
func For(major, minor int) Target {
	for _, t := range Targets {
		if t.Major == major && t.Minor <= minor || t.Major == 0 {
			return t
		}
	}
	panic("build: no PTX among the targets")
}

// HashFile is the archive's entry that holds [HashSources].
const HashFile = "sources.sha256"

// HashSources is the hash of all kernel sources and of the compiler's flags.
func HashSources(kernels fs.FS) (string, error) {
	h := sha256.New()
	for _, pattern := range []string{"*.cu", "*.cuh"} {
		files, err := fs.Glob(kernels, pattern)
		if err != nil {
			return "", err
		}
		for _, name := range files {
			data, err := fs.ReadFile(kernels, name)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(h, "%s %d\n", path.Base(name), len(data))
			h.Write(data)
		}
	}
	for _, t := range Targets {
		fmt.Fprintln(h, t.File, t.Flags)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
