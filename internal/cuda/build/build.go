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
	"regexp"
	"slices"
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

// Sum is the archive's line of [SumsFile] for what lies in a module's folder, such as
// internal/cuda, now: the hash of all kernel sources, of the headers of other folders that
// they include and of the compiler's flags, and that of the archive.
func (a *Archive) Sum(module fs.FS, dir string) (string, error) {
	built := sha256.New()
	var sources []string
	for _, pattern := range []string{"kernels/*.cu", "kernels/*.cuh"} {
		files, err := fs.Glob(module, path.Join(dir, pattern))
		if err != nil {
			return "", err
		}
		sources = append(sources, files...)
	}
	for i := 0; i < len(sources); i++ { // which grows
		name := sources[i]
		data, err := fs.ReadFile(module, name)
		if err != nil {
			return "", err
		}
		short := name
		if path.Dir(name) == path.Join(dir, "kernels") {
			short = path.Base(name)
		}
		fmt.Fprintf(built, "%s %d\n", short, len(data))
		built.Write(data)
		for _, header := range included(name, data) {
			if !slices.Contains(sources, header) {
				sources = append(sources, header)
			}
		}
	}
	for _, t := range a.Targets {
		fmt.Fprintln(built, t.File, a.Defines, t.Flags)
	}
	packed := sha256.New()
	f, err := module.Open(path.Join(dir, a.File))
	if err != nil {
		return "", err
	}
	defer f.Close()
	if _, err := io.Copy(packed, f); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s sources %s archive %s\n", a.File, hex.EncodeToString(built.Sum(nil)), hex.EncodeToString(packed.Sum(nil))), nil
}

// included are the headers that a source names in quotes: those of the module.
func included(source string, data []byte) []string {
	var list []string
	for _, m := range quoted.FindAllSubmatch(data, -1) {
		list = append(list, path.Join(path.Dir(source), string(m[1])))
	}
	return list
}

var quoted = regexp.MustCompile(`(?m)^[ \t]*#[ \t]*include[ \t]*"([^"]+)"`)

// Sums is the text of [SumsFile] for what lies in a module's folder now.
func Sums(module fs.FS, dir string, archives ...*Archive) (string, error) {
	var text strings.Builder
	for _, a := range archives {
		line, err := a.Sum(module, dir)
		if err != nil {
			return "", err
		}
		text.WriteString(line)
	}
	return text.String(), nil
}
