//go:build unix && !linux

package kv

// adviseHuge does nothing: this system offers no such advice.
func adviseHuge([]byte) {}
