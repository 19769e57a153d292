package filemap

import "golang.org/x/sys/unix"

// adviseHuge asks for huge pages, which not every system or file system grants. Pages of the file that are
// in memory already stay as they are.
func adviseHuge(data []byte) { _ = unix.Madvise(data, unix.MADV_HUGEPAGE) }
