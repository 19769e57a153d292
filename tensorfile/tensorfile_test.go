package tensorfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
)

func TestOpenGoesByContent(t *testing.T) {
	array := npy("'|u1'", "False", "(1,)", []byte{7})
	zipLike := safetensors(`{}`, 0)
	for _, c := range []struct {
		name string
		data []byte
		want int // tensors
		err  error
	}{
		{"a.npz", safetensors(`{}`, 0), 0, nil},
		{"a.safetensors", array, 1, nil},
		{"a", zipOf(member{name: "x.npy", body: array}), 1, nil},
		{"a.npy", zipOf(), 0, nil},
		{"a.safetensors", []byte("hello"), 0, ErrFormat},
		{"a.safetensors", nil, 0, ErrFormat},
		{"a.npy", nil, 0, ErrFormat},
		{"a.npz", []byte("hello"), 0, ErrFormat},
		{"a.bin", []byte("hello"), 0, ErrFormat},
		// A header length that spells the signature of a zip: still a safetensors, and cut short.
		{"a.bin", append([]byte("PK\x03\x04\x00\x00\x00\x00"), zipLike[8:]...), 0, ErrFormat},
	} {
		path := filepath.Join(t.TempDir(), c.name)
		if err := os.WriteFile(path, c.data, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := Open(path)
		if c.err != nil {
			wantError(t, err, c.err, path)
			continue
		}
		if err != nil || len(f.Tensors) != c.want {
			t.Errorf("%s %.20q: %v, %v", c.name, c.data, f, err)
			continue
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestOpenRefusesWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	_, err := Open(dir)
	wantError(t, err, ErrFormat, dir, "regular")
	missing := filepath.Join(dir, "missing.npz")
	_, err = Open(missing)
	wantError(t, err, fs.ErrNotExist, missing)
	_, err = Open(os.DevNull)
	wantError(t, err, ErrFormat, os.DevNull)
}

func openFile(t *testing.T, path string) *File {
	t.Helper()
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(f.Close(), f.Close()); err != nil { // closing twice is allowed
			t.Error(err)
		}
		if _, ok := f.Tensor("q"); ok {
			t.Error("a closed file still gives tensors")
		}
	})
	return f
}

// requireSame compares tensors bit by bit, in name order.
func requireSame(t interface{ Fatalf(string, ...any) }, got, want []Tensor) {
	want = newFile(slices.Clone(want), nil).Tensors
	if len(got) != len(want) {
		t.Fatalf("got %d tensors, want %d", len(got), len(want))
	}
	for i := range want {
		g, w := got[i], want[i]
		if g.Name != w.Name || g.DType != w.DType || !slices.Equal(g.Shape, w.Shape) || string(g.Data) != string(w.Data) {
			t.Fatalf("got tensor %q %v %v %x, want %q %v %v %x",
				g.Name, g.DType, g.Shape, g.Data, w.Name, w.DType, w.Shape, w.Data)
		}
	}
}

// allocated is the number of bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// memoryFor bounds what parsing so many bytes may allocate: the fixed buffers of the zip and JSON
// readers, and the largest growth found, that of a directory or header of the shortest entries.
func memoryFor(size int) uint64 { return 256<<10 + 64*uint64(size) }

// TestOpenTellsModelsFromTensors: a model's file is told apart, with what takes it, whatever its name.
func TestOpenTellsModelsFromTensors(t *testing.T) {
	for name, words := range map[string]string{"model.gguf": "a model in GGUF", "model": "package model", "model.bin": "want safetensors"} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte("GGUF\x03\x00\x00\x00"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Open(path)
		wantError(t, err, ErrFormat, path, words)
	}
}
