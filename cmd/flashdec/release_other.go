//go:build !unix

package main

// release has no counterpart here: the system decides alone which pages of a
// mapped file to keep.
func release([]byte) {}
