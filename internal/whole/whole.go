// Package whole writes files that appear whole or not at all.
package whole

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Write makes a file of what encode writes. It is written beside its place,
// synced, and renamed there, so a failure leaves what was there before, and
// whoever has the old file open or mapped keeps it. A symbolic link in its place
// is replaced. Only a killed process can leave its temporary file, .flashdec-….
//
// Errors name the path, and wrap encode's or the system's.
func Write(path string, encode func(io.Writer) error) error {
	if err := write(path, encode); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func write(path string, encode func(io.Writer) error) (err error) {
	// Not os.CreateTemp, whose file nobody else may read: here the umask decides. The name is short
	// whatever the path's, and of 128 random bits, so that it is taken cannot happen by chance.
	temporary := filepath.Join(filepath.Dir(path), ".flashdec-"+rand.Text())
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return bare(err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temporary) // err is the failure to report
		}
	}()
	if err := errors.Join(fill(f, encode), bare(f.Close())); err != nil {
		return err
	}
	// The directory is not synced: after a crash the path holds the old file or the new, whole.
	return bare(os.Rename(temporary, path))
}

// bare is the system's error without the temporary file's name, which means nothing to anyone.
func bare(err error) error {
	var file *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &file):
		err = file.Err
	case errors.As(err, &link):
		err = link.Err
	case err == nil:
		return nil
	}
	return fmt.Errorf("cannot be written: %w", err)
}

func fill(f *os.File, encode func(io.Writer) error) error {
	w := bufio.NewWriter(&syncing{file: f})
	if err := encode(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return bare(f.Sync())
}

// syncing writes to a file and syncs as it goes, so that no call takes long, the
// last sync least of all: encode may want to stop.
type syncing struct {
	file  *os.File
	dirty int // bytes since the last sync
}

// syncEvery is how many bytes are written between two syncs: a tenth of a
// second's on a slow disk.
const syncEvery = 16 << 20

func (s *syncing) Write(p []byte) (int, error) {
	n, err := s.file.Write(p)
	if s.dirty += n; err == nil && s.dirty >= syncEvery {
		s.dirty = 0
		err = s.file.Sync()
	}
	return n, bare(err)
}
