package model

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/flashdec/flashdec/gguf"
	"github.com/flashdec/flashdec/internal/plainjson"
	"github.com/flashdec/flashdec/tensorfile"
)

// stored is a tensor as it lies in a file.
type stored struct {
	t     gguf.Type
	shape []int // the last dimension's elements are adjacent
	data  []byte
}

// source is the tensors of a model's files.
type source struct {
	tensors map[string]stored
	files   []io.Closer
}

func (s *source) close() error {
	var err error
	for _, f := range s.files {
		err = errors.Join(err, f.Close())
	}
	s.files, s.tensors = nil, nil
	return err
}

// ggufSource is the tensors of a GGUF file, which it takes over.
func ggufSource(f *gguf.File) *source {
	s := &source{tensors: make(map[string]stored, len(f.Tensors)), files: []io.Closer{f}}
	for _, t := range f.Tensors {
		s.tensors[t.Name] = stored{t.Type, t.Shape, t.Data}
	}
	return s
}

// folderSource opens the safetensors files of a Hugging Face folder.
func folderSource(dir string) (*source, error) {
	names, err := shards(dir)
	if err != nil {
		return nil, err
	}
	s := &source{tensors: map[string]stored{}}
	for _, name := range names {
		if err := s.addShard(filepath.Join(dir, name)); err != nil {
			_ = s.close() // err is the failure to report
			return nil, err
		}
	}
	return s, nil
}

// plainTypes are the types that weights may have in safetensors.
var plainTypes = map[tensorfile.DType]gguf.Type{tensorfile.F32: gguf.F32, tensorfile.F16: gguf.F16, tensorfile.BF16: gguf.BF16}

func (s *source) addShard(path string) error {
	f, err := tensorfile.Open(path)
	if err != nil {
		return err
	}
	s.files = append(s.files, f)
	for _, t := range f.Tensors {
		if _, twice := s.tensors[t.Name]; twice {
			return fmt.Errorf("%s: %w: tensor %q is in another file, too", path, ErrWeight, t.Name)
		}
		dtype, plain := plainTypes[t.DType]
		if !plain {
			dtype = noType // an error if it is wanted
		}
		s.tensors[t.Name] = stored{dtype, t.Shape, t.Data}
	}
	return nil
}

// noType stands for a type that no weight may have.
const noType = gguf.Type(1<<32 - 1)

const (
	weightsFile = "model.safetensors"
	indexFile   = "model.safetensors.index.json"
)

// shards are the names of a folder's weight files: those of the index, or the only one.
func shards(dir string) ([]string, error) {
	var index struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	path := filepath.Join(dir, indexFile)
	switch err := readJSON(path, &index); {
	case errors.Is(err, os.ErrNotExist):
		return []string{weightsFile}, nil
	case err != nil:
		return nil, err
	case len(index.WeightMap) == 0:
		return nil, fmt.Errorf("%s: %w: it names no file", path, ErrConfig)
	}
	names := slices.Compact(slices.Sorted(maps.Values(index.WeightMap)))
	for _, name := range names {
		if name != filepath.Base(name) || name == "." || name == ".." {
			return nil, fmt.Errorf("%s: %w: %.80q is not the name of a file beside it", path, ErrConfig, name)
		}
	}
	return names, nil
}

// maxJSON bounds what is read of a description.
const maxJSON = 64 << 20

// readJSON decodes a file. Errors name it, and wrap ErrConfig or os's.
func readJSON(path string, v any) error {
	info, err := os.Stat(path) // asked first, because opening a pipe waits for its writer
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Size() > maxJSON {
		return fmt.Errorf("%s: %w: %v of %d bytes, want a regular file of at most %d", path, ErrConfig, info.Mode(), info.Size(), maxJSON)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := plainjson.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%s: %w: %w", path, ErrConfig, err)
	}
	return nil
}
