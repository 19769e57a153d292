//go:build unix && !linux

package filemap

// adviseHuge does nothing: this system offers no such advice.
func adviseHuge([]byte) {}
