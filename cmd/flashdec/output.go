package main

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/tensorfile"
)

// checkOutput tells before the work whether its result can be written: by name,
// by what lies in its place, and by whether its folder takes a file.
func checkOutput(path, input string) error {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".safetensors", ".npz":
	default:
		return fmt.Errorf("%s: output has extension %q, want .safetensors or .npz", path, filepath.Ext(path))
	}
	if info, err := os.Stat(path); err == nil {
		if info.IsDir() {
			return fmt.Errorf("%s: output is a directory, want a file", path)
		}
		if in, err := os.Stat(input); err == nil && os.SameFile(info, in) {
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

// writeOutput writes out [seqs, NumHeads, queries, ValueDim] and lse [seqs,
// NumHeads, queries], whole or not at all.
func writeOutput(path string, c *decodeCase, got *flashdec.Output) error {
	shape := []int{c.seqs, c.shape.NumHeads, c.queries, c.shape.ValueDim}
	return tensorfile.Write(path, []tensorfile.Tensor{
		singles("out", swapMiddle(got.Out, c.seqs, c.queries, c.shape.NumHeads, c.shape.ValueDim), shape),
		singles("lse", swapMiddle(got.LSE, c.seqs, c.queries, c.shape.NumHeads, 1), shape[:3]),
	}, nil)
}

func singles(name string, x []float32, shape []int) tensorfile.Tensor {
	data := make([]byte, 4*len(x))
	for i, v := range x {
		binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(v))
	}
	return tensorfile.Tensor{Name: name, DType: tensorfile.F32, Shape: shape, Data: data}
}
