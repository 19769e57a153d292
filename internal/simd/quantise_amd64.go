package simd

// quantiseKernel is assembly that stores the codes of whole vectors of numbers.
type quantiseKernel = func(dst *byte, x *float32, vectors int, scale float32)

var (
	quantiseAVX512 = [NumElems]quantiseKernel{I8: quantiseI8AVX512, I4: quantiseI4AVX512, E4M3: quantiseE4M3AVX512, E5M2: quantiseE5M2AVX512}
	quantiseAVX2   = [NumElems]quantiseKernel{I8: quantiseI8AVX2, I4: quantiseI4AVX2, E4M3: quantiseE4M3AVX2, E5M2: quantiseE5M2AVX2}
)

func largest(x []float32) uint32 {
	switch n := len(x); {
	case useAVX512 && n >= 16:
		return max(largestAVX512(&x[0], n/16), largestGeneric(x[n&^15:]))
	case useAVX2 && n >= 8:
		return max(largestAVX2(&x[0], n/8), largestGeneric(x[n&^7:]))
	}
	return largestGeneric(x)
}

// quantise leaves to plain Go what has quotients that are no numbers.
func quantise(dst []byte, e Elem, x []float32, scale float32) {
	kernel, lanes := quantiseAVX2[e], 8
	if useAVX512 {
		kernel, lanes = quantiseAVX512[e], 16
	}
	one := func(int) float32 { return scale }
	n := len(x) / lanes
	if n == 0 || !useAVX2 || scale == 0 || !Finite(scale) || !Finite(Largest(x)) {
		quantiseGeneric(dst, e, x, one)
		return
	}
	_ = dst[e.RowBytes(len(x))-1]
	kernel(&dst[0], &x[0], n, scale)
	n *= lanes
	quantiseGeneric(dst[e.RowBytes(n):], e, x[n:], one)
}
