package tensorfile

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/flashdec/flashdec/internal/whole"
)

// Write writes the file in the format that its extension names: .safetensors, .npz or .npy, the last
// for one tensor, whose name is then the file's affair, and no metadata.
//
// The file appears whole or not at all: it is written beside its place, synced, and renamed there, so
// a failure leaves what was there before, and whoever has the old file mapped keeps it. A symbolic link
// in its place is replaced. Only a killed process can leave its temporary file, .flashdec-….
//
// Errors name the path, and wrap ErrFormat (names or metadata that the format cannot hold, names that
// come twice), ErrDType (numpy has no BF16, F8E4M3, F8E5M2), ErrShape (Data does not fill Shape),
// ErrTooLarge (a safetensors header past its limit) or os's.
func Write(path string, tensors []Tensor, metadata map[string]string) error {
	return WriteContext(context.Background(), path, tensors, metadata)
}

// WriteContext is Write until ctx is done: then it leaves what was there before, and returns ctx's cause.
func WriteContext(ctx context.Context, path string, tensors []Tensor, metadata map[string]string) error {
	encode := encodeOnlyNPY
	switch strings.ToLower(filepath.Ext(path)) {
	case ".safetensors":
		encode = encodeSafetensors
	case ".npz":
		encode = encodeNPZ
	case ".npy":
	default:
		return fmt.Errorf("tensorfile: %s: extension is none of .safetensors, .npz, .npy: %w", path, ErrFormat)
	}
	return write(ctx, path, func(w io.Writer) error { return encode(w, tensors, metadata) })
}

// WriteSafetensors is Write in that format, whatever the extension. As in the reference implementation,
// types of more bytes come first and equal ones by name, so that every tensor is aligned to its type.
func WriteSafetensors(path string, tensors []Tensor, metadata map[string]string) error {
	return write(context.Background(), path, func(w io.Writer) error { return encodeSafetensors(w, tensors, metadata) })
}

// WriteNPZ is Write in that format, whatever the extension. Entries are stored, not deflated, so that
// Open can use them in place. Metadata becomes numpy strings of no dimension, except where a tensor of
// one element has that name and value already, as it has after ParseNPZ.
func WriteNPZ(path string, tensors []Tensor, metadata map[string]string) error {
	return write(context.Background(), path, func(w io.Writer) error { return encodeNPZ(w, tensors, metadata) })
}

func write(ctx context.Context, path string, encode func(io.Writer) error) error {
	if err := whole.Write(path, func(w io.Writer) error { return encode(stopping{ctx, w}) }); err != nil {
		return fmt.Errorf("tensorfile: %w", err)
	}
	return nil
}

// stopping writes until its context is done.
type stopping struct {
	ctx context.Context
	to  io.Writer
}

func (s stopping) Write(p []byte) (n int, err error) {
	err = steps(s.ctx, p, func(piece []byte) error {
		written, err := s.to.Write(piece)
		n += written
		return err
	})
	return n, err
}
