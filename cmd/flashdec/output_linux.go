package main

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// reserve takes room for so many bytes of an empty file. Not every file system can: from one that cannot comes no error.
func reserve(f *os.File, bytes int) error {
	if bytes == 0 {
		return nil
	}
	err := error(unix.EINTR)
	for tries := 0; errors.Is(err, unix.EINTR) && tries < 16; tries++ { // signals break it off, those of Go's own among them
		err = unix.Fallocate(int(f.Fd()), 0, 0, int64(bytes))
	}
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG) {
		return err
	}
	return nil
}
