// Package tensorfile reads and writes named tensors in .safetensors, .npy and .npz files.
//
//	file ──Open──▶ mapping ──Parse──▶ File{Tensors, Metadata} ──View, Float32s──▶ []float32
//
// A file is mapped, not read, where the system allows: opening a model of many gigabytes costs its
// header. Bytes are hostile until checked. What a file declares is held against what it holds before
// anything is allocated, so memory follows the file's size and never its claims; the one thing that can
// grow is a deflated .npz entry, whose bounds [ParseNPZ] states. Who wants some of an archive's tensors,
// or wants to see their shapes first, opens it with [Index] and calls [File.Load].
//
// The readers are the project's own because those to be had fall short: npyio refuses float16, and the
// safetensors package for Go is unreleased and reads into memory what should be mapped. What is left
// out: arrays of Python objects (they are pickles, which run code), structured, complex and date types.
package tensorfile

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/flashdec/flashdec/internal/filemap"
)

// File is the contents of one file.
type File struct {
	Tensors []Tensor // in name order, names unique
	// Metadata is a safetensors file's own, or the one-element arrays of an .npz as text; see ParseNPZ.
	Metadata map[string]string

	path     string
	pending  map[string]npzEntry // arrays of an archive that Load has not yet read, by tensor
	mappings []mapping           // what the tensors point into
}

// mapping is memory that stands for a file's bytes.
type mapping struct {
	data  []byte
	unmap func() error
}

// Open maps the file and parses it in the format that its content shows, or, where that shows none, in
// the one that its extension names. The tensor of an .npy file is named after the file.
//
// Tensors point into the mapping: they are read-only (writing to their Data faults), they end with
// Close, and they need the file to keep its length meanwhile (reading what was cut off faults, or is
// ErrCut). A file that is replaced by rename, as Write does, is safe.
//
// Errors name the path, and wrap ErrFormat, ErrDType, ErrShape, ErrTooLarge or os's.
func Open(path string) (*File, error) {
	f, err := Index(path)
	if err != nil {
		return nil, err
	}
	if err := f.loadAll(context.Background()); err != nil {
		// The first error is the one to report; a failed unmap leaks address space and nothing else.
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// Index is Open without an archive's arrays: in an .npz, tensors of more than one element have no Data
// before Load. Their types and shapes are known, and no more than their headers has been inflated.
func Index(path string) (*File, error) {
	data, unmap, err := openMapping(path)
	if err != nil {
		return nil, fmt.Errorf("tensorfile: %w", err)
	}
	f, err := parse(data, path)
	if err != nil {
		_ = unmap() // as in Open
		return nil, fmt.Errorf("tensorfile: %s: %w", path, err)
	}
	f.path = path
	f.mappings = append(f.mappings, mapping{data, unmap})
	return f, nil
}

// Load returns the tensor of that name with its Data, which an archive's entry gets now, and
// f.Tensors with it: a stored one's checksum is compared, and what is deflated, big-endian or in
// Fortran's order is put right in a copy. A large copy goes to a temporary file without a name,
// mapped like any other, so that the system can take its memory back; where none can be made, to
// memory. Not for several goroutines at once.
//
// It stops with ctx's cause. Errors are Open's; a name that the file does not have is ErrFormat.
func (f *File) Load(ctx context.Context, name string) (_ Tensor, err error) {
	defer filemap.Recover(&err, debug.SetPanicOnFault(true))
	if f == nil {
		return Tensor{}, fmt.Errorf("tensorfile: the file was never opened: %w", ErrFormat)
	}
	t, ok := f.Tensor(name)
	if !ok {
		return Tensor{}, fmt.Errorf("tensorfile: %s: no tensor %s: %w", f.path, quote(name), ErrFormat)
	}
	e, ok := f.pending[name]
	if !ok {
		return t, nil
	}
	copied, err := e.load(ctx, &t, fileRoom)
	if err != nil {
		return Tensor{}, fmt.Errorf("tensorfile: %s: tensor %s: %w", f.path, quote(name), err)
	}
	if copied.unmap != nil {
		f.mappings = append(f.mappings, copied)
		f.Release(e.data)
	}
	delete(f.pending, name)
	i, _ := f.find(name)
	f.Tensors[i] = t
	return t, nil
}

func (f *File) loadAll(ctx context.Context) error {
	for _, t := range f.Tensors {
		if _, err := f.Load(ctx, t.Name); err != nil {
			return err
		}
	}
	return nil
}

// Tensor returns the tensor of that name.
func (f *File) Tensor(name string) (Tensor, bool) {
	i, ok := f.find(name)
	if !ok {
		return Tensor{}, false
	}
	return f.Tensors[i], true
}

func (f *File) find(name string) (i int, ok bool) {
	if f == nil {
		return 0, false
	}
	return slices.BinarySearchFunc(f.Tensors, name, func(t Tensor, name string) int {
		return cmp.Compare(t.Name, name)
	})
}

// Release tells the system that bytes of a tensor have been read for now: where they are mapped, it may
// take their memory back, and reads them again if they are touched again. Elsewhere it does nothing.
func (f *File) Release(data []byte) {
	for _, m := range f.mappings {
		if contains(m.data, data) {
			release(data)
			return
		}
	}
}

// Close unmaps the file. Data and views that were taken from it must not be touched afterwards.
// Closing again, or closing what Parse returned, does nothing.
func (f *File) Close() error {
	if f == nil {
		return nil
	}
	var err error
	for _, m := range f.mappings {
		err = errors.Join(err, m.unmap())
	}
	if f.mappings != nil {
		f.mappings, f.pending, f.Tensors = nil, nil, nil
	}
	if err != nil {
		return fmt.Errorf("tensorfile: %w", err)
	}
	return nil
}

// newFile puts the tensors in name order.
func newFile(tensors []Tensor, metadata map[string]string) *File {
	return &File{Tensors: inNameOrder(tensors), Metadata: metadata}
}

func inNameOrder(tensors []Tensor) []Tensor {
	slices.SortFunc(tensors, func(a, b Tensor) int { return cmp.Compare(a.Name, b.Name) })
	return tensors
}

func parse(data []byte, path string) (*File, error) {
	switch format(data, path) {
	case ".safetensors":
		return parseSafetensors(data)
	case ".npz":
		return indexNPZ(data, inflateBudget(len(data)))
	case ".npy":
		t, err := parseNPY(data)
		if err != nil {
			return nil, err
		}
		t.Name = strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
		return newFile([]Tensor{t}, map[string]string{}), nil
	}
	if bytes.HasPrefix(data, []byte(ggufMagic)) {
		return nil, fmt.Errorf("a model in GGUF, want safetensors, npy or npz (flashdec generate and package model take GGUF): %w", ErrFormat)
	}
	return nil, fmt.Errorf("neither safetensors nor npy nor npz by content or extension: %w", ErrFormat)
}

// ggufMagic begins files of models that this package does not read.
const ggufMagic = "GGUF"

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
