package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flashdec/flashdec/tensorfile"
)

// checkOutput tells before the work whether its result can be written: by name,
// by what lies in its place, and by whether its folder takes a file.
func checkOutput(path, input string, extensions ...string) error {
	if ext := filepath.Ext(path); !slices.Contains(extensions, strings.ToLower(ext)) {
		return fmt.Errorf("%s: output has extension %q, want %s", path, ext, strings.Join(extensions, " or "))
	}
	return checkPlace(path, input)
}

// checkPlace is checkOutput for a file of any name.
func checkPlace(path, input string) error {
	if info, err := os.Stat(path); err == nil {
		if info.IsDir() {
			return fmt.Errorf("%s: output is a directory, want a file", path)
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s: output is there and is no regular file (%v), which would be replaced", path, info.Mode().Type())
		}
		if isOneOf(info, input) {
			return fmt.Errorf("%s: output is the input file itself, want another", path)
		}
	}
	if err := probe(path, 0); err != nil {
		return fmt.Errorf("%s: output cannot be written: %w", path, err)
	}
	return nil
}

// checkRoom tells before long work whether the disk has room for so many bytes of its result, where the system can tell.
// Another program may take it meanwhile: then writing fails as it would have without.
func checkRoom(path string, bytes int) error {
	if err := probe(path, bytes); err != nil {
		return fmt.Errorf("%s: output of %s cannot be written: %w", path, byteCount(bytes), err)
	}
	return nil
}

// probe makes a file beside a path, with room for so many bytes, and removes it.
func probe(path string, bytes int) error {
	name := filepath.Join(filepath.Dir(path), ".flashdec-"+rand.Text())
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err == nil {
		err = errors.Join(reserve(f, bytes), f.Close(), os.Remove(name))
	}
	var e *fs.PathError
	if errors.As(err, &e) {
		return e.Err // the probe's name means nothing to anyone
	}
	return err
}

// notOfModel tells whether an output would replace a file of the model that it is
// computed from: a GGUF file, or any file of a folder.
func notOfModel(path, model string) error {
	out, err := os.Stat(path)
	if err != nil {
		return nil // nothing to replace
	}
	files := []string{model}
	if entries, err := os.ReadDir(model); err == nil {
		for _, e := range entries {
			files = append(files, filepath.Join(model, e.Name()))
		}
	}
	if isOneOf(out, files...) {
		return fmt.Errorf("%s: output is a file of the model %s, want another", quotePath(path), quotePath(model))
	}
	return nil
}

// isOneOf tells whether one of the paths leads to the file.
func isOneOf(file fs.FileInfo, paths ...string) bool {
	return slices.ContainsFunc(paths, func(path string) bool {
		info, err := os.Stat(path)
		return err == nil && os.SameFile(info, file)
	})
}

// output is the results of a case in the order of files.
type output struct {
	c   *decodeCase
	out []float32 // [seqs, NumHeads, queries, ValueDim]
	lse []float32 // [seqs, NumHeads, queries]
}

func newOutput(c *decodeCase) *output {
	rows := c.seqs * c.shape.NumHeads * c.queries
	return &output{c, make([]float32, rows*c.shape.ValueDim), make([]float32, rows)}
}

// bytes is what it takes.
func (o *output) bytes() int { return 4 * (len(o.out) + len(o.lse)) }

// put takes a chunk's results in.
func (o *output) put(got *decoded) {
	heads, dim := o.c.shape.NumHeads, o.c.shape.ValueDim
	for seq := got.seq; seq < got.seq+got.seqs; seq++ {
		for head := range heads {
			to := (seq*heads+head)*o.c.queries + got.query
			for query := got.query; query < got.query+got.queries; query++ {
				from := got.place(seq, query)*heads + head
				copy(o.out[to*dim:][:dim], got.Out[from*dim:])
				o.lse[to] = got.LSE[from]
				to++
			}
		}
	}
}

// write writes it, whole or not at all.
func (o *output) write(ctx context.Context, path string) error {
	shape := []int{o.c.seqs, o.c.shape.NumHeads, o.c.queries, o.c.shape.ValueDim}
	return tensorfile.WriteContext(ctx, path, []tensorfile.Tensor{
		singles("out", o.out, shape), singles("lse", o.lse, shape[:3]),
	}, nil)
}

func singles(name string, x []float32, shape []int) tensorfile.Tensor {
	return tensorfile.Tensor{Name: name, DType: tensorfile.F32, Shape: shape, Data: tensorfile.Bytes(x)}
}
