package tensorfile

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// counted is n bytes that differ from their neighbours.
func counted(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i ^ i>>8)
	}
	return b
}

// indexed writes an archive and opens it with Index.
func indexed(t *testing.T, members ...member) *File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.npz")
	if err := os.WriteFile(path, zipOf(members...), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Index(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// large is a shape's worth of bytes past which arrays go to a temporary file.
const large = 3 * spillFrom

// TestIndexInflatesHeadersOnly: shapes are known before anything large is read.
func TestIndexInflatesHeadersOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.npz")
	data := zipOf(
		deflated("q.npy", npy("'|u1'", "False", "(3, 1048576)", make([]byte, large))),
		deflated("scale.npy", npy("'<f8'", "False", "()", bytesOf([]float64{0.5}))),
		member{name: "k.npy", body: npy("'|u1'", "False", "(2,)", []byte{1, 2}), crc: 7},
	)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	var f *File
	var err error
	if got := allocated(func() { f, err = Index(path) }); err != nil || got > 256<<10 {
		t.Fatalf("allocated %d bytes, error %v", got, err)
	}
	defer f.Close()
	q, _ := f.Tensor("q")
	if !slices.Equal(q.Shape, []int{3, 1 << 20}) || q.DType != U8 || q.Data != nil {
		t.Errorf("%v %v with %d bytes, want the shape and type alone", q.DType, q.Shape, len(q.Data))
	}
	if f.Metadata["scale"] != "0.5" {
		t.Errorf("metadata %v, want the scale", f.Metadata)
	}
	_, err = f.Load(t.Context(), "k")
	wantError(t, err, ErrFormat, path, `tensor "k"`, "checksum")
	_, err = f.Load(t.Context(), "v")
	wantError(t, err, ErrFormat, path, `no tensor "v"`)
	_, err = Open(path)
	wantError(t, err, ErrFormat, path, "checksum")
}

func TestLoad(t *testing.T) {
	plain := counted(large)
	swapped := slices.Clone(plain)
	for pair := range slices.Chunk(swapped, 2) {
		slices.Reverse(pair)
	}
	f := indexed(t,
		member{name: "stored.npy", body: npy("'|u1'", "False", "(3145728,)", plain)},
		deflated("deflated.npy", npy("'|u1'", "False", "(3145728,)", plain)),
		deflated("small.npy", npy("'|u1'", "False", "(100,)", plain[:100])),
		member{name: "big-endian.npy", body: npy("'>u2'", "False", "(1572864,)", swapped)},
		deflated("both.npy", npy("'>u2'", "False", "(1572864,)", swapped)),
		member{name: "empty.npy", body: npy("'<f4'", "True", "(3, 0)", nil)},
	)
	for name, want := range map[string][]byte{
		"stored": plain, "deflated": plain, "small": plain[:100], "big-endian": plain, "both": plain, "empty": {},
	} {
		got, err := f.Load(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		// Memory that is given back holds the same when it is touched again.
		for range 2 {
			if !bytes.Equal(got.Data, want) {
				t.Fatalf("%s: other bytes than were put in", name)
			}
			f.Release(got.Data)
		}
		again, err := f.Load(t.Context(), name)
		if err != nil || len(want) > 0 && &again.Data[0] != &got.Data[0] {
			t.Errorf("%s: loaded again, error %v", name, err)
		}
		if kept, _ := f.Tensor(name); len(want) > 0 && &kept.Data[0] != &got.Data[0] {
			t.Errorf("%s: the file keeps other data", name)
		}
	}
	if len(f.mappings) != 4 {
		t.Errorf("%d mappings, want the file's and three of large copies", len(f.mappings))
	}
}

// TestReleaseLeavesMemoryAlone: what is not mapped could not be read again.
func TestReleaseLeavesMemoryAlone(t *testing.T) {
	f := indexed(t, member{name: "a.npy", body: npy("'|u1'", "False", "(2,)", []byte{1, 2})})
	own := counted(64 << 10)
	f.Release(own)
	if !bytes.Equal(own, counted(64<<10)) {
		t.Error("memory that is no file's was given back")
	}
}

func TestLoadStopsWithItsContext(t *testing.T) {
	body := npy("'>u2'", "False", "(1572864,)", counted(large))
	plain := npy("'<u2'", "False", "(1572864,)", counted(large))
	f := indexed(t, member{name: "stored.npy", body: body}, deflated("deflated.npy", body), deflated("plain.npy", plain))
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	for _, name := range []string{"stored", "deflated", "plain"} {
		if _, err := f.Load(ctx, name); !errors.Is(err, gone) {
			t.Errorf("%s: error %v, want the context's", name, err)
		}
		if _, err := f.Load(t.Context(), name); err != nil {
			t.Errorf("%s afterwards: %v", name, err)
		}
	}
}

// TestRoomMovesToMemory: a full disk is no reason to fail where memory will do.
func TestRoomMovesToMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "room")
	if err := os.WriteFile(path, []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	full, err := os.Open(path) // not for writing
	if err != nil {
		t.Fatal(err)
	}
	if _, err := full.Seek(3, 0); err != nil {
		t.Fatal(err)
	}
	r := &room{size: 8, file: full}
	for _, piece := range []string{"de", "fgh"} {
		if n, err := r.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatalf("wrote %d bytes of %q: %v", n, piece, err)
		}
	}
	if m, err := r.mapped(); err != nil || string(m.data) != "abcdefgh" || m.unmap != nil {
		t.Errorf("%q, %v", m.data, err)
	}
}
