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

	"github.com/flashdec/flashdec"
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
	probe := filepath.Join(filepath.Dir(path), ".flashdec-"+rand.Text())
	f, err := os.OpenFile(probe, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		var e *fs.PathError
		if errors.As(err, &e) {
			err = e.Err // the probe's name means nothing to anyone
		}
		return fmt.Errorf("%s: output cannot be written: %w", path, err)
	}
	if err := errors.Join(f.Close(), os.Remove(probe)); err != nil {
		return fmt.Errorf("%s: output cannot be written: %w", path, err)
	}
	return nil
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

// writeOutput writes out [seqs, NumHeads, queries, ValueDim] and lse [seqs,
// NumHeads, queries], whole or not at all. It puts got itself into that order:
// there may be no room for a copy.
func writeOutput(ctx context.Context, path string, c *decodeCase, got *flashdec.Output) error {
	shape := []int{c.seqs, c.shape.NumHeads, c.queries, c.shape.ValueDim}
	swapMiddle(got.Out, c.seqs, c.queries, c.shape.NumHeads, c.shape.ValueDim)
	swapMiddle(got.LSE, c.seqs, c.queries, c.shape.NumHeads, 1)
	return tensorfile.WriteContext(ctx, path, []tensorfile.Tensor{
		singles("out", got.Out, shape), singles("lse", got.LSE, shape[:3]),
	}, nil)
}

func singles(name string, x []float32, shape []int) tensorfile.Tensor {
	return tensorfile.Tensor{Name: name, DType: tensorfile.F32, Shape: shape, Data: tensorfile.Bytes(x)}
}

// swapMiddle turns [n, a, b, dim] into [n, b, a, dim] where it lies.
func swapMiddle(x []float32, n, a, b, dim int) {
	if a == 1 || b == 1 || len(x) == 0 { // the same order
		return
	}
	moved := make([]bool, a*b)
	for rows := range slices.Chunk(x, len(x)/n) {
		clear(moved)
		transpose(rows, moved, a, b, dim)
	}
}

// transpose turns [a, b, dim] into [b, a, dim], a cycle of rows after the other: row
// i·b + j goes to place j·a + i, whose row goes on to its own.
func transpose(x []float32, moved []bool, a, b, dim int) {
	carried := make([]float32, dim)
	for start := range moved {
		if moved[start] {
			continue
		}
		copy(carried, x[start*dim:])
		for at := start; !moved[at]; {
			moved[at] = true
			at = at%b*a + at/b
			row := x[at*dim:][:dim]
			for d := range row {
				row[d], carried[d] = carried[d], row[d]
			}
		}
	}
}
