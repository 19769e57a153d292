// Package gguf reads GGUF files: the metadata and the tensors, quantised ones included, of a model.
//
//	file ──Open──▶ mapping ──Parse──▶ File{Metadata, Tensors} ──Row──▶ []float32
//
// A file is mapped, not read: opening a model of many gigabytes costs its header, and tensors are used
// where they lie. Bytes are hostile until checked. What a file declares is held against what it holds
// before anything is allocated, so memory follows the file's size and never its claims.
//
// Versions 2 and 3 of the format are read, little-endian, and the element types of [Type]. The block
// layouts are those that ggml's documentation gives.
package gguf

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/flashdec/flashdec/internal/filemap"
)

// The errors of this package wrap one of these, or an error of package os.
var (
	// ErrFormat: the bytes break the format's rules.
	ErrFormat = errors.New("format violated")
	// ErrType: a version, or an element type, that this package does not read.
	ErrType = errors.New("not supported")
	// ErrShape: a call's row or buffer does not fit the tensor.
	ErrShape = errors.New("shape does not fit")
)

// File is the contents of one file.
type File struct {
	Version int
	// Metadata values are uint8 to uint64, int8 to int64, float32, float64, bool, string, or slices of
	// these. Keys are unique.
	Metadata map[string]any
	Tensors  []Tensor // in name order, names unique

	unmap func() error // nil when nothing is mapped
}

// Tensor is one named array.
type Tensor struct {
	Name  string
	Type  Type
	Shape []int  // 1 to 4 dimensions of at least 1, the last the one whose elements are adjacent: [rows, columns]
	Data  []byte // whole blocks of the type
}

// Open maps a file and parses it. Tensors point into the mapping: they are read-only, they end with
// Close, and they need the file to keep its length meanwhile: reading what was cut off faults, or is
// [tensorfile.ErrCut] of what this module computes.
//
// Errors name the path, and wrap ErrFormat, ErrType or os's.
func Open(path string) (*File, error) {
	data, unmap, err := filemap.Open(path)
	if err != nil {
		return nil, fmt.Errorf("gguf: %w", err)
	}
	f, err := parse(data)
	if err != nil {
		// The parse error is the one to report; a failed unmap leaks address space and nothing else.
		_ = unmap()
		return nil, fmt.Errorf("gguf: %s: %w", path, err)
	}
	f.unmap = unmap
	return f, nil
}

// Parse reads a whole file. The tensors' Data lie in data; metadata is copied.
//
// It refuses what would be read as something else elsewhere, too: keys or names that come twice,
// tensors that overlap, a bool that is neither 0 nor 1. Errors wrap ErrFormat or ErrType.
func Parse(data []byte) (*File, error) {
	f, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("gguf: %w", err)
	}
	return f, nil
}

// Tensor returns the tensor of that name.
func (f *File) Tensor(name string) (Tensor, bool) {
	if f == nil {
		return Tensor{}, false
	}
	i, ok := slices.BinarySearchFunc(f.Tensors, name, func(t Tensor, name string) int {
		return cmp.Compare(t.Name, name)
	})
	if !ok {
		return Tensor{}, false
	}
	return f.Tensors[i], true
}

// Close unmaps the file. Data of its tensors must not be touched afterwards. Closing again, or closing
// what Parse returned, does nothing.
func (f *File) Close() error {
	if f == nil || f.unmap == nil {
		return nil
	}
	unmap := f.unmap
	f.unmap, f.Tensors = nil, nil
	if err := unmap(); err != nil {
		return fmt.Errorf("gguf: %w", err)
	}
	return nil
}

// Columns is the number of elements of a row: those of the last dimension.
func (t Tensor) Columns() int {
	if len(t.Shape) == 0 {
		return 0
	}
	return t.Shape[len(t.Shape)-1]
}

// Rows is the number of rows, all dimensions but the last together.
func (t Tensor) Rows() int {
	size := t.Type.RowBytes(t.Columns())
	if size < 1 {
		return 0
	}
	return len(t.Data) / size
}

// Row reads row i into dst [Columns]. It wraps ErrShape or ErrType.
func (t Tensor) Row(dst []float32, i int) error {
	if i < 0 || i >= t.Rows() {
		return fmt.Errorf("gguf: tensor %s: row %d, want 0 to %d: %w", quote(t.Name), i, t.Rows()-1, ErrShape)
	}
	if len(dst) != t.Columns() {
		return fmt.Errorf("gguf: tensor %s: room for %d elements, want %d: %w", quote(t.Name), len(dst), t.Columns(), ErrShape)
	}
	size := t.Type.RowBytes(t.Columns())
	return t.Type.Dequantise(dst, t.Data[i*size:(i+1)*size])
}

// quote is %q for names that come from a file, kept short enough for a line.
func quote(name string) string {
	const most = 80
	if len(name) > most {
		return fmt.Sprintf("%q…", name[:most])
	}
	return fmt.Sprintf("%q", name)
}
