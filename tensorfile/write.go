package tensorfile

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Write writes the file in the format that its extension names: .safetensors, .npz or .npy, the last
// for one tensor, whose name is then the file's affair, and no metadata.
//
// The file appears whole or not at all: it is written beside its place, synced, and renamed there, so
// a failure leaves what was there before, and whoever has the old file mapped keeps it. A symbolic link
// in its place is replaced. Only a killed process can leave its temporary file, .tensorfile-….
//
// Errors name the path, and wrap ErrFormat (names or metadata that the format cannot hold, names that
// come twice), ErrDType (numpy has no BF16, F8E4M3, F8E5M2), ErrShape (Data does not fill Shape),
// ErrTooLarge (a safetensors header past its limit) or os's.
func Write(path string, tensors []Tensor, metadata map[string]string) error {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".safetensors":
		return WriteSafetensors(path, tensors, metadata)
	case ".npz":
		return WriteNPZ(path, tensors, metadata)
	case ".npy":
		return write(path, func(w io.Writer) error { return encodeOnlyNPY(w, tensors, metadata) })
	}
	return fmt.Errorf("tensorfile: %s: extension is none of .safetensors, .npz, .npy: %w", path, ErrFormat)
}

// WriteSafetensors is Write in that format, whatever the extension. As in the reference implementation,
// types of more bytes come first and equal ones by name, so that every tensor is aligned to its type.
func WriteSafetensors(path string, tensors []Tensor, metadata map[string]string) error {
	return write(path, func(w io.Writer) error { return encodeSafetensors(w, tensors, metadata) })
}

// WriteNPZ is Write in that format, whatever the extension. Entries are stored, not deflated, so that
// Open can use them in place. Metadata becomes numpy strings of no dimension, except where a tensor of
// one element has that name and value already, as it has after ParseNPZ.
func WriteNPZ(path string, tensors []Tensor, metadata map[string]string) error {
	return write(path, func(w io.Writer) error { return encodeNPZ(w, tensors, metadata) })
}

func write(path string, encode func(io.Writer) error) error {
	if err := writeAtomically(path, encode); err != nil {
		return fmt.Errorf("tensorfile: %s: %w", path, err)
	}
	return nil
}

func writeAtomically(path string, encode func(io.Writer) error) (err error) {
	// Not os.CreateTemp, whose file nobody else may read: here the umask decides. The name is short
	// whatever the path's, and of 128 random bits, so that it is taken cannot happen by chance.
	temporary := filepath.Join(filepath.Dir(path), ".tensorfile-"+rand.Text())
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temporary) // err is the failure to report
		}
	}()
	if err := errors.Join(fill(f, encode), f.Close()); err != nil {
		return err
	}
	// The directory is not synced: after a crash the path holds the old file or the new, whole.
	return os.Rename(temporary, path)
}

func fill(f *os.File, encode func(io.Writer) error) error {
	w := bufio.NewWriter(f)
	if err := encode(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Sync()
}
