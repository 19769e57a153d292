//go:build !amd64

package simd

func largest(x []float32) uint32 { return largestGeneric(x) }

func quantise(dst []byte, e Elem, x []float32, scale float32) {
	quantiseGeneric(dst, e, x, func(int) float32 { return scale })
}
