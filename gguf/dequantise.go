package gguf

import "github.com/flashdec/flashdec/internal/simd"

// plain reads elements that are numbers by themselves.
func plain(e simd.Elem) func(dst []float32, src []byte) {
	return func(dst []float32, src []byte) { simd.Widen(dst, e, src) }
}

// quantised reads elements in blocks.
func quantised(b simd.Block) func(dst []float32, src []byte) {
	return func(dst []float32, src []byte) { simd.Dequantise(b, dst, src) }
}
