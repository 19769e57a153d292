package whole

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// only fails unless a folder holds one file, with a text.
func only(t *testing.T, path, text string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != filepath.Base(path) {
			t.Errorf("%s was left behind", e.Name())
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != text {
		t.Errorf("the file holds %q, %v, want %q", got, err, text)
	}
}

func TestWriteReplaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.html")
	for _, text := range []string{"before", "after"} {
		if err := Write(path, func(w io.Writer) error { _, err := io.WriteString(w, text); return err }); err != nil {
			t.Fatal(err)
		}
		only(t, path, text)
	}
}

func TestFailureLeavesWhatWasThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(path, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	full := errors.New("disk full")
	err := Write(path, func(w io.Writer) error {
		if _, err := w.Write(make([]byte, 1<<20)); err != nil { // past every buffer
			t.Error(err)
		}
		return full
	})
	if !errors.Is(err, full) {
		t.Errorf("error %v, want %v", err, full)
	}
	only(t, path, "before")
	missing := filepath.Join(t.TempDir(), "missing", "page.html")
	err = Write(missing, func(io.Writer) error { return nil })
	if !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), missing+": ") || strings.Contains(err.Error(), ".flashdec-") {
		t.Errorf("a file in no folder: %v, want that %s is told of", err, missing)
	}
	folder := filepath.Join(t.TempDir(), "folder", "in", "its", "place")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	folder = filepath.Dir(folder)
	err = Write(folder, func(io.Writer) error { return nil })
	if err == nil || !strings.HasPrefix(err.Error(), folder+": cannot be written: ") || strings.Contains(err.Error(), ".flashdec-") {
		t.Errorf("in the place of a folder: %v, want that %s is told of", err, folder)
	}
}
