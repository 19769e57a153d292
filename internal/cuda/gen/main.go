// Command gen compiles the kernels of the archives named, of all unless some are, for
// every target, packs the results, and writes kernels.sum, which ties archives to
// sources. It runs in internal/cuda, or with -model in model/gpu.
//
//	gen -print [ARCHIVE]       prints the compiler's command lines, to run elsewhere
//	gen -images DIR ARCHIVE    packs what they made
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
	"slices"
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
	images := flag.String("images", "", "folder of one archive's images that were compiled elsewhere")
	printOnly := flag.Bool("print", false, "print the command lines that make the images")
	ofModel := flag.Bool("model", false, "the archive of model/gpu")
	flag.Parse()
	all, dir := build.Archives, "internal/cuda"
	if *ofModel {
		all, dir = []*build.Archive{&build.Model}, "model/gpu"
	}
	archives, err := named(all, flag.Args())
	if err != nil {
		return err
	}
	if *images != "" && len(archives) != 1 {
		return errors.New("-images wants the name of one archive")
	}
	for _, a := range archives {
		if *printOnly {
			for _, t := range a.Targets {
				fmt.Println("nvcc", strings.Join(arguments(".", a, t), " "))
			}
			continue
		}
		if err := pack(a, *images); err != nil {
			return fmt.Errorf("%s: %w", a.File, err)
		}
	}
	if *printOnly {
		return nil
	}
	sums, err := build.Sums(os.DirFS("../.."), dir, all...)
	if err != nil {
		return err
	}
	return os.WriteFile(build.SumsFile, []byte(sums), 0o644)
}

// named are those of the archives that have the names, all for none.
func named(all []*build.Archive, names []string) ([]*build.Archive, error) {
	if len(names) == 0 {
		return all, nil
	}
	var list []*build.Archive
	for _, name := range names {
		i := slices.IndexFunc(all, func(a *build.Archive) bool { return a.File == name })
		if i < 0 {
			return nil, fmt.Errorf("no archive is named %q", name)
		}
		list = append(list, all[i])
	}
	return list, nil
}

// pack writes an archive of the images in a folder, or of those that it compiles
// where that is "".
func pack(a *build.Archive, images string) error {
	dir := images
	if images == "" {
		temp, err := os.MkdirTemp("", "kernels")
		if err != nil {
			return err
		}
		defer os.RemoveAll(temp)
		dir = temp
	}
	var packed bytes.Buffer
	w := zip.NewWriter(&packed)
	w.RegisterCompressor(zip.Deflate, func(out io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(out, flate.BestCompression)
	})
	for _, t := range a.Targets {
		if images == "" {
			if err := compile(dir, a, t); err != nil {
				return err
			}
		}
		image, err := os.ReadFile(filepath.Join(dir, t.File))
		if err != nil {
			return err
		}
		if err := add(w, t.File, image); err != nil {
			return err
		}
		log.Printf("%s: %s: %d bytes", a.File, t.File, len(image))
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(a.File, packed.Bytes(), 0o644)
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
func compile(dir string, a *build.Archive, t build.Target) error {
	nvcc, err := exec.LookPath("nvcc")
	if err != nil {
		return errors.New("nvcc 13.0 is not on the PATH; see doc.go")
	}
	cmd := exec.Command(nvcc, arguments(dir, a, t)...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", t.File, err)
	}
	return nil
}

// arguments are nvcc's, in internal/cuda, for an image in dir.
func arguments(dir string, a *build.Archive, t build.Target) []string {
	args := append([]string{"-std=c++17", "-O3", "-o", filepath.Join(dir, t.File)}, a.Defines...)
	return append(append(args, t.Flags...), a.Source)
}
