package simd

import "syscall"

// adviseHuge asks for huge pages, as a large cache does.
func adviseHuge(data []byte) { _ = syscall.Madvise(data, 14) } // MADV_HUGEPAGE
