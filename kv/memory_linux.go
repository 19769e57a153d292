package kv

import "golang.org/x/sys/unix"

// adviseHuge asks for huge pages, which not every system grants.
func adviseHuge(data []byte) { _ = unix.Madvise(data, unix.MADV_HUGEPAGE) }
