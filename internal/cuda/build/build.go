// Package build says what the embedded kernels are built for, and ties a build
// to its sources. The generator and the loader share it.
package build

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
)

// Archive is one build of a source: a zip file of an image a target.
type Archive struct {
	File    string
	Source  string
	Defines []string // for nvcc, beside the target's flags
	Targets []Target // the best first among those of one major version; PTX last
}

// Target is one entry of an archive.
type Target struct {
	File  string
	Major int // compute capability; 0 is PTX, for what no cubin fits
	Minor int
	Flags []string // for nvcc
}

// Arch is the instruction set that a target's kernels are in, such as sm_90a.
func (t Target) Arch() string { return strings.TrimSuffix(t.File, path.Ext(t.File)) }

var ptx = Target{File: "compute_80.ptx", Flags: []string{"-arch=compute_80", "-ptx"}}

func cubin(major, minor int, arch string) Target {
	return Target{
		File: "sm_" + arch + ".cubin", Major: major, Minor: minor,
		Flags: []string{"-gencode=arch=compute_" + arch + ",code=sm_" + arch, "-cubin"},
	}
}

// Kernels are what computes.
var Kernels = Archive{
	File: "kernels.zip", Source: "kernels/decode.cu",
	Targets: []Target{
		cubin(8, 9, "89"),
		cubin(8, 6, "86"),
		cubin(8, 0, "80"),
		cubin(9, 0, "90a"),
		cubin(12, 0, "120"),
		ptx,
	},
}

// Traced are the kernels that most steps run, with marks of which multiprocessor runs
// a block and when (kernels/trace.cuh).
var Traced = Archive{
	File:    "traced.zip",
	Source:  "kernels/decode.cu",
	Defines: []string{"-DFLASHDEC_TRACE"},
	Targets: []Target{cubin(9, 0, "90a"), ptx},
}

// Model is what package model/gpu computes with, in that package's folder. Its kernels
// have nothing that is faster on a newer GPU of the same major version; what comes after
// 9.0 overlaps launches as that does.
var Model = Archive{
	File: "kernels.zip", Source: "kernels/steps.cu",
	Targets: []Target{
		cubin(8, 0, "80"),
		cubin(9, 0, "90a"),
		{File: "compute_90.ptx", Flags: []string{"-arch=compute_90", "-ptx"}},
	},
}

// Archives are all there are in internal/cuda.
var Archives = []*Archive{&Kernels, &Traced}

// For returns the target to load on a GPU of the given compute capability: the
// newest cubin of its major version that is not newer than itself, else PTX.
func (a *Archive) For(major, minor int) Target {
	for _, t := range a.Targets {
		if t.Major == major && t.Minor <= minor || t.Major == 0 {
			return t
		}
	}
	panic("build: no PTX among the targets")
}

// Image reads a target's image out of an archive that is embedded in files, ready to load.
func (a *Archive) Image(files fs.FS, t Target) ([]byte, error) {
	packed, err := fs.ReadFile(files, a.File)
	if err != nil {
		return nil, fmt.Errorf("embedded kernels: %w", err)
	}
	z, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
	if err != nil {
		return nil, fmt.Errorf("embedded kernels: %w", err)
	}
	image, err := fs.ReadFile(z, t.File)
	if err != nil {
		return nil, fmt.Errorf("embedded kernels: %w", err)
	}
	if t.Major == 0 {
		image = append(image, 0) // PTX is text
	}
	return image, nil
}

// SumsFile has a line an archive: its [Archive.Sum] as it was built. It lies beside
// the archives and not in them, since a change of the sources that changes no
// instruction leaves the archive as it is.
const SumsFile = "kernels.sum"

// Sum is the archive's line of [SumsFile] for what lies in a folder now: the hash of all
// kernel sources and the compiler's flags, and that of the archive.
func (a *Archive) Sum(dir fs.FS) (string, error) {
	built := sha256.New()
	for _, pattern := range []string{"kernels/*.cu", "kernels/*.cuh"} {
		files, err := fs.Glob(dir, pattern)
		if err != nil {
			return "", err
		}
		for _, name := range files {
			data, err := fs.ReadFile(dir, name)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(built, "%s %d\n", path.Base(name), len(data))
			built.Write(data)
		}
	}
	for _, t := range a.Targets {
		fmt.Fprintln(built, t.File, a.Defines, t.Flags)
	}
	packed := sha256.New()
	f, err := dir.Open(a.File)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if _, err := io.Copy(packed, f); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s sources %s archive %s\n", a.File, hex.EncodeToString(built.Sum(nil)), hex.EncodeToString(packed.Sum(nil))), nil
}

// Sums is the text of [SumsFile] for what lies in a folder now.
func Sums(dir fs.FS, archives ...*Archive) (string, error) {
	var text strings.Builder
	for _, a := range archives {
		line, err := a.Sum(dir)
		if err != nil {
			return "", err
		}
		text.WriteString(line)
	}
	return text.String(), nil
}
