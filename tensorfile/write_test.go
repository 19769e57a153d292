package tensorfile

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"testing"
)

func TestWriteThenOpen(t *testing.T) {
	bits := bytesOf([]uint32{0x7f800001, 0xffc12345, 0xff800000, 0x80000000}) // NaN payloads, −Inf, −0
	want := []Tensor{
		{"q", F32, []int{2, 2}, bits},
		{"empty", F32, []int{0, 2}, nil},
		{"mask", U8, []int{3}, []byte{1, 0, 1}},
		{"scalar", Bool, nil, []byte{1}},
	}
	metadata := map[string]string{"scale": "0.125", "causal": "false", "scalar": "true"}
	for _, name := range []string{"x.safetensors", "x.npz", "x.SAFETENSORS"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), name)
			if err := Write(path, want, metadata); err != nil {
				t.Fatal(err)
			}
			f := openFile(t, path)
			requireSame(t, f.Tensors, want)
			if !maps.Equal(f.Metadata, metadata) {
				t.Errorf("metadata %v, want %v", f.Metadata, metadata)
			}
			requireOnly(t, filepath.Dir(path), name)
		})
	}
	t.Run("x.npy", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "x.npy")
		if err := Write(path, want[:1], nil); err != nil {
			t.Fatal(err)
		}
		named := want[0]
		named.Name = "x"
		requireSame(t, openFile(t, path).Tensors, []Tensor{named})
	})
}

// requireOnly wants one file in the directory: what was written, and no temporary one.
func requireOnly(t *testing.T, dir string, name string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != name {
			t.Errorf("%s was left behind", e.Name())
		}
	}
}

func TestWriteRefuses(t *testing.T) {
	x := vector(F32, make([]byte, 4))
	named := func(name string) []Tensor { y := x; y.Name = name; return []Tensor{y} }
	for _, c := range []struct {
		name     string
		path     string
		tensors  []Tensor
		metadata map[string]string
		sentinel error
		words    string
	}{
		{"extension", "a.gguf", nil, nil, ErrFormat, "extension"},
		{"twice", "a.safetensors", []Tensor{x, x}, nil, ErrFormat, `"x" comes twice`},
		{"twice", "a.npz", []Tensor{x, x}, nil, ErrFormat, `"x" comes twice`},
		{"reserved", "a.safetensors", named("__metadata__"), nil, ErrFormat, "__metadata__"},
		{"name", "a.safetensors", named("\xff"), nil, ErrFormat, `"\xff"`},
		{"key", "a.safetensors", nil, map[string]string{"\xff": ""}, ErrFormat, `"\xff"`},
		{"value", "a.npz", nil, map[string]string{"k": "\xff"}, ErrFormat, `"k"`},
		{"shape", "a.safetensors", []Tensor{{"x", F32, []int{2}, make([]byte, 4)}}, nil, ErrShape, `"x"`},
		{"shape", "a.npy", []Tensor{{"x", F32, []int{2}, make([]byte, 4)}}, nil, ErrShape, `"x"`},
		{"dtype", "a.safetensors", []Tensor{{Name: "x"}}, nil, ErrDType, `"x"`},
		{"bf16", "a.npz", []Tensor{vector(BF16, make([]byte, 4))}, nil, ErrDType, "BF16"},
		{"bf16", "a.npy", []Tensor{vector(BF16, make([]byte, 4))}, nil, ErrDType, "BF16"},
		{"path", "a.npz", named("../x"), nil, ErrFormat, `"../x"`},
		{"path of metadata", "a.npz", nil, map[string]string{"/k": ""}, ErrFormat, `"/k"`},
		{"trailing NUL", "a.npz", nil, map[string]string{"k": "v\x00"}, ErrFormat, "NUL"},
		{"metadata is a tensor", "a.npz", []Tensor{x}, map[string]string{"x": "1"}, ErrFormat, `"x"`},
		{"two", "a.npy", append(named("y"), x), nil, ErrFormat, "got 2"},
		{"metadata", "a.npy", []Tensor{x}, map[string]string{"k": "v"}, ErrFormat, "got 1 and 1"},
	} {
		t.Run(c.name+" "+c.path, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), c.path)
			if err := os.WriteFile(path, []byte("before"), 0o600); err != nil {
				t.Fatal(err)
			}
			wantError(t, Write(path, c.tensors, c.metadata), c.sentinel, path, c.words)
			requireOnly(t, filepath.Dir(path), c.path)
			if got, err := os.ReadFile(path); err != nil || string(got) != "before" {
				t.Errorf("the file that was there holds %q, %v", got, err)
			}
		})
	}
}

// TestWriteAllOrNothing fails at each step of a write, and looks at what is there then.
func TestWriteAllOrNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.npz")
	if err := os.WriteFile(path, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	full := errors.New("disk full")
	err := write(t.Context(), path, func(w io.Writer) error {
		must(w.Write(make([]byte, 1<<20))) // past every buffer
		return full
	})
	wantError(t, err, full, path)
	requireOnly(t, dir, "a.npz")
	if got, err := os.ReadFile(path); err != nil || string(got) != "before" {
		t.Errorf("the file that was there holds %q, %v", got, err)
	}

	missing := filepath.Join(dir, "missing", "a.npz")
	wantError(t, Write(missing, nil, nil), fs.ErrNotExist, missing)

	taken := filepath.Join(dir, "taken.npz")
	if err := os.MkdirAll(filepath.Join(taken, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Write(taken, nil, nil); err == nil {
		t.Error("a directory was replaced")
	}
	if names := must(filepath.Glob(filepath.Join(dir, ".flashdec-*"))); len(names) != 0 {
		t.Errorf("%v left behind", names)
	}
}

// TestWriteStopsWithItsContext: what was there before stays, whatever has been written by then.
func TestWriteStopsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.safetensors")
	if err := os.WriteFile(path, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	err := write(ctx, path, func(w io.Writer) error {
		must(w.Write(make([]byte, 3*stepBytes)))
		cancel(gone)
		_, err := w.Write(make([]byte, 3*stepBytes))
		return err
	})
	wantError(t, err, gone, path)
	wantError(t, WriteContext(ctx, path, []Tensor{vector(U8, make([]byte, stepBytes))}, nil), gone, path)
	requireOnly(t, dir, "a.safetensors")
	if got, err := os.ReadFile(path); err != nil || string(got) != "before" {
		t.Errorf("the file that was there holds %q, %v", got, err)
	}
}

func TestWriteIntoUnwritableDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	probe := filepath.Join(dir, "probe")
	if os.WriteFile(probe, nil, 0o600) == nil {
		t.Skip("this user may write anywhere")
	}
	wantError(t, Write(filepath.Join(dir, "a.npz"), nil, nil), fs.ErrPermission, dir)
	requireOnly(t, dir, "")
}

// TestWriteOverMapping writes a file from tensors that lie in the mapping of the old one.
func TestWriteOverMapping(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.safetensors")
	want := []Tensor{vector(U8, []byte("payload"))}
	if err := Write(path, want, nil); err != nil {
		t.Fatal(err)
	}
	old := openFile(t, path)
	if err := Write(path, old.Tensors, map[string]string{"note": "a longer header"}); err != nil {
		t.Fatal(err)
	}
	requireSame(t, old.Tensors, want)
	requireSame(t, openFile(t, path).Tensors, want)
}
