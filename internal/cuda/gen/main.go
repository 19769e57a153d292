// Command gen compiles kernels/decode.cu for every architecture and packs the
// results, with the sources' hash, into kernels.zip. It runs in internal/cuda.
//
//	gen -print       prints the compiler's command lines, to run elsewhere
//	gen -images DIR  packs what they made
package main

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

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
	images := flag.String("images", "", "folder of images that were compiled elsewhere")
	printOnly := flag.Bool("print", false, "print the command lines that make the images")
	flag.Parse()
	if *printOnly {
		for _, t := range build.Targets {
			fmt.Println("nvcc", strings.Join(arguments(".", t), " "))
		}
		return nil
	}
	hash, err := build.HashSources(os.DirFS("kernels"))
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "kernels")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	dir := temp
	var packed bytes.Buffer
	w := zip.NewWriter(&packed)
	w.RegisterCompressor(zip.Deflate, func(out io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(out, flate.BestCompression)
	})
	for _, t := range build.Targets {
		if *images == "" {
			err = compile(dir, t)
		} else {
			dir = *images
		}
		if err != nil {
			return err
		}
		image, err := os.ReadFile(filepath.Join(dir, t.File))
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
func compile(dir string, t build.Target) error {
	nvcc, err := exec.LookPath("nvcc")
	if err != nil {
		return errors.New("nvcc 13.0 is not on the PATH; see doc.go")
	}
	cmd := exec.Command(nvcc, arguments(dir, t)...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", t.File, err)
	}
	return nil
}

// arguments are nvcc's, in internal/cuda, for an image in dir.
func arguments(dir string, t build.Target) []string {
	args := append([]string{"-std=c++17", "-O3", "-o", filepath.Join(dir, t.File)}, t.Flags...)
	return append(args, "kernels/decode.cu")
}
