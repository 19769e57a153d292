// Package tensorfile reads and writes named tensors in .safetensors, .npy and .npz files.
//
//	file ──Open──▶ mapping ──Parse──▶ File{Tensors, Metadata} ──View, Float32s──▶ []float32
//
// A file is mapped, not read, where the system allows: opening a model of many gigabytes costs its
// header. Bytes are hostile until checked. What a file declares is held against what it holds before
// anything is allocated, so memory follows the file's size and never its claims; the one thing that can
// grow is a deflated .npz entry, whose bounds [ParseNPZ] states.
//
// The readers are the project's own because those to be had fall short: npyio refuses float16, and the
// safetensors package for Go is unreleased and reads into memory what should be mapped. What is left
// out: arrays of Python objects (they are pickles, which run code), structured, complex and date types.
package tensorfile

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// File is the contents of one file.
type File struct {
	Tensors []Tensor // in name order, names unique
	// Metadata is a safetensors file's own, or the one-element arrays of an .npz as text; see ParseNPZ.
	Metadata map[string]string

	unmap func() error // nil when nothing is mapped
}

// Open maps the file and parses it in the format that its content shows, or, where that shows none, in
// the one that its extension names. The tensor of an .npy file is named after the file.
//
// Tensors point into the mapping: they are read-only (writing to their Data faults), they end with
// Close, and they need the file to keep its length meanwhile (reading what was cut off faults). A file
// that is replaced by rename, as Write does, is safe.
//
// Errors name the path, and wrap ErrFormat, ErrDType, ErrShape, ErrTooLarge or os's.
func Open(path string) (*File, error) {
	data, unmap, err := openMapping(path)
	if err != nil {
		return nil, fmt.Errorf("tensorfile: %w", err)
	}
	f, err := parse(data, path)
	if err != nil {
		// The parse error is the one to report; a failed unmap leaks address space and nothing else.
		_ = unmap()
		return nil, fmt.Errorf("tensorfile: %s: %w", path, err)
	}
	f.unmap = unmap
	return f, nil
}

// Tensor returns the tensor of that name.
func (f *File) Tensor(name string) (Tensor, bool) {
	i, ok := slices.BinarySearchFunc(f.Tensors, name, func(t Tensor, name string) int {
		return cmp.Compare(t.Name, name)
	})
	if !ok {
		return Tensor{}, false
	}
	return f.Tensors[i], true
}

// Close unmaps the file. Data and views that were taken from it must not be touched afterwards.
// Closing again, or closing what Parse returned, does nothing.
func (f *File) Close() error {
	if f.unmap == nil {
		return nil
	}
	unmap := f.unmap
	f.unmap, f.Tensors = nil, nil
	if err := unmap(); err != nil {
		return fmt.Errorf("tensorfile: %w", err)
	}
	return nil
}

// newFile puts the tensors in name order.
func newFile(tensors []Tensor, metadata map[string]string) *File {
	slices.SortFunc(tensors, func(a, b Tensor) int { return cmp.Compare(a.Name, b.Name) })
	return &File{Tensors: tensors, Metadata: metadata}
}

func parse(data []byte, path string) (*File, error) {
	switch format(data, path) {
	case ".safetensors":
		return parseSafetensors(data)
	case ".npz":
		return parseNPZ(data, inflateBudget(len(data)))
	case ".npy":
		t, err := parseNPY(data)
		if err != nil {
			return nil, err
		}
		t.Name = strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
		return newFile([]Tensor{t}, map[string]string{}), nil
	}
	return nil, fmt.Errorf("neither safetensors nor npy nor npz by content or extension: %w", ErrFormat)
}

// format names the format of data as an extension. The order matters: a header length of safetensors
// can spell the signature of a zip, but a zip never has '{' at byte 8, and the signature of an npy
// would be a header length far past the limit.
func format(data []byte, path string) string {
	switch {
	case hasPrefix(data, npyMagic):
		return ".npy"
	case len(data) > 8 && data[8] == '{':
		return ".safetensors"
	case hasPrefix(data, "PK\x03\x04"), hasPrefix(data, "PK\x05\x06"):
		return ".npz"
	}
	return strings.ToLower(filepath.Ext(path))
}

func hasPrefix(data []byte, prefix string) bool {
	return len(data) >= len(prefix) && string(data[:len(prefix)]) == prefix
}

// openMapping returns the bytes of a regular file and what gives them back.
func openMapping(path string) (data []byte, unmap func() error, err error) {
	// Asked before opening, because opening a pipe waits for its writer.
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s: %v is not a regular file: %w", path, info.Mode(), ErrFormat)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close() // a mapping outlives its descriptor
	if info, err = f.Stat(); err != nil {
		return nil, nil, err
	}
	if info.Size() > math.MaxInt {
		return nil, nil, fmt.Errorf("%s: %d bytes pass the address space: %w", path, info.Size(), ErrTooLarge)
	}
	if info.Size() == 0 { // which the system refuses to map
		return nil, func() error { return nil }, nil
	}
	data, unmap, err = mapFile(f, int(info.Size()))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return data, unmap, nil
}
