//go:build unix

package filemap

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
)

// cutFile maps a file of some pages and cuts it short behind the first.
func cutFile(t *testing.T) (data []byte, path string) {
	t.Helper()
	page := os.Getpagesize()
	path = filepath.Join(t.TempDir(), "cut")
	if err := os.WriteFile(path, bytes.Repeat([]byte{7}, 3*page), 0o600); err != nil {
		t.Fatal(err)
	}
	data, unmap, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unmap(); err != nil {
			t.Error(err)
		}
	})
	if err := os.Truncate(path, int64(page)); err != nil {
		t.Fatal(err)
	}
	return data, path
}

// TestUnmappedMemoryIsNoFiles: what is given back may become anyone's memory, and its faults are not the file's.
func TestUnmappedMemoryIsNoFiles(t *testing.T) {
	before := len(mapped.files)
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, make([]byte, 100), 0o600); err != nil {
		t.Fatal(err)
	}
	_, unmap, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(mapped.files) - before; n != 1 {
		t.Errorf("%d mappings are known, want the 1 there is", n)
	}
	if err := unmap(); err != nil {
		t.Error(err)
	}
	if n := len(mapped.files) - before; n != 0 {
		t.Errorf("%d mappings are known that there are no more", n)
	}
}

func sum(data []byte) (total int, err error) {
	defer Recover(&err, debug.SetPanicOnFault(true))
	for _, b := range data {
		total += int(b)
	}
	return total, nil
}

// TestACutFileIsAnError that names the file and the first byte that is missing; what is left can still be read.
func TestACutFileIsAnError(t *testing.T) {
	data, path := cutFile(t)
	page := os.Getpagesize()
	if total, err := sum(data[:page]); total != 7*page || err != nil {
		t.Errorf("what is left: %d, %v, want %d", total, err, 7*page)
	}
	_, err := sum(data)
	if !errors.Is(err, ErrCut) || !strings.HasPrefix(err.Error(), path+": ") || !strings.Contains(err.Error(), "byte "+strconv.Itoa(page)+" of "+strconv.Itoa(3*page)) {
		t.Errorf("error %v, want ErrCut, the path, and byte %d of %d", err, page, 3*page)
	}
	if debug.SetPanicOnFault(false) {
		t.Error("faults still panic where nobody waits for them")
	}
}

// TestOtherPanicsGoOn: only a fault in a mapped file is the file's.
func TestOtherPanicsGoOn(t *testing.T) {
	data, _ := cutFile(t)
	forget(data) // as if it were other memory
	for name, f := range map[string]func(){
		"a panic":         func() { panic("x") },
		"a nil pointer":   func() { println(*(*int)(nil)) },
		"a fault nearby":  func() { read = sumBytes(data) },
		"an index beyond": func() { _ = data[len(data):][len(os.Args)] },
	} {
		var err error
		recovered := func() (r any) {
			defer func() { r = recover() }()
			func() {
				defer Recover(&err, debug.SetPanicOnFault(true))
				f()
			}()
			return nil
		}()
		if recovered == nil || err != nil {
			t.Errorf("%s: panic %v, error %v, want it to go on", name, recovered, err)
		}
	}
}

var read int // so that reading is not left out

func sumBytes(data []byte) (total int) {
	for _, b := range data {
		total += int(b)
	}
	return total
}

// TestTheFirstErrorStays where a fault comes after another failure.
func TestTheFirstErrorStays(t *testing.T) {
	data, _ := cutFile(t)
	first := errors.New("first")
	err := first
	func() {
		defer Recover(&err, debug.SetPanicOnFault(true))
		read = sumBytes(data)
	}()
	if err != first {
		t.Errorf("error %v, want %v", err, first)
	}
}
