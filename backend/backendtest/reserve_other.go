//go:build !linux

package backendtest

import "testing"

func reserve(t testing.TB, bytes int) []byte {
	t.Helper()
	t.Skipf("%d bytes of address space: only tried on Linux", bytes)
	return nil
}

func beforeCliff(t testing.TB, data []byte) []byte { return reserve(t, len(data)) }
