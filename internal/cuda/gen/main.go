// Command gen compiles kernels/decode.cu for every architecture and packs the
// results, with the sources' hash, into kernels.zip. It runs in internal/cuda.
package main

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/flashdec/flashdec/internal/cuda/build"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("gen: ")
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	hash, err := build.HashSources(os.DirFS("kernels"))
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "kernels")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var packed bytes.Buffer
	w := zip.NewWriter(&packed)
	w.RegisterCompressor(zip.Deflate, func(out io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(out, flate.BestCompression)
	})
	for _, t := range build.Targets {
		image, err := compile(dir, t)
		if err != nil {
			return err
		}
		if err := add(w, t.File, image); err != nil {
			return err
		}
		log.Printf("%s: %d bytes", t.File, len(image))
	}
	if err := add(w, build.HashFile, []byte(hash)); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile("kernels.zip", packed.Bytes(), 0o644)
}

func add(w *zip.Writer, name string, data []byte) error {
	f, err := w.Create(name)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return err
}

// compile builds one target, one job at a time.
func compile(dir string, t build.Target) ([]byte, error) {
	nvcc, err := exec.LookPath("nvcc")
	if err != nil {
		return nil, errors.New("nvcc 13.0 is not on the PATH; see doc.go")
	}
	out := filepath.Join(dir, t.File)
	args := append([]string{"-std=c++17", "-O3", "-o", out}, t.Flags...)
	cmd := exec.Command(nvcc, append(args, "kernels/decode.cu")...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w", t.File, err)
	}
	return os.ReadFile(out)
}
