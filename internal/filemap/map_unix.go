//go:build unix

package filemap

import (
	"os"

	"golang.org/x/sys/unix"
)

// hugeFrom is the size from which a file is read in huge pages: a bare read of weights is faster by a half
// to nine tenths than in small ones (docs/calibration.md).
const hugeFrom = 64 << 20

// mapFile maps the first size bytes of f, read-only. Shared, not private: no page is ever copied, and
// every process that has the model open shares the same ones.
func mapFile(f *os.File, size int) (data []byte, unmap func() error, err error) {
	data, err = unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, os.NewSyscallError("mmap", err)
	}
	if size >= hugeFrom {
		adviseHuge(data)
	}
	note(data, f.Name())
	return data, func() error {
		forget(data)
		return os.NewSyscallError("munmap", unix.Munmap(data))
	}, nil
}
