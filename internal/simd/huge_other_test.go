//go:build unix && !linux

package simd

func adviseHuge([]byte) {}
