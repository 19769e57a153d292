package filemap

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestOpenGivesTheFile(t *testing.T) {
	want := bytes.Repeat([]byte("page "), 5000)
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, want, 0o666); err != nil {
		t.Fatal(err)
	}
	data, unmap, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(data, want) {
		t.Errorf("%d bytes, want the file's %d", len(data), len(want))
	}
	if err := unmap(); err != nil {
		t.Error(err)
	}
}

func TestOpenOfNothingToMap(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := Open(dir); !errors.Is(err, ErrNotRegular) {
		t.Errorf("a directory: %v, want %v", err, ErrNotRegular)
	}
	if _, _, err := Open(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v, want %v", err, os.ErrNotExist)
	}
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	data, unmap, err := Open(empty)
	if err != nil || len(data) != 0 {
		t.Fatalf("an empty file: %d bytes, %v", len(data), err)
	}
	if err := unmap(); err != nil {
		t.Error(err)
	}
}
