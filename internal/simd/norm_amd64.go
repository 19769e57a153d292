package simd

// wholeVectors is how many elements of n fill vectors of the level in use, and in how many.
func wholeVectors(n int) (elements, vectors int) {
	lanes := 8
	switch {
	case !useAVX2:
		return 0, 0
	case useAVX512:
		lanes = 16
	}
	vectors = n / lanes
	return vectors * lanes, vectors
}

func squares(x []float32) (sum float64) {
	n, vectors := wholeVectors(len(x))
	switch {
	case n == 0:
	case useAVX512:
		sum = squaresAVX512(&x[0], vectors)
	default:
		sum = squaresAVX2(&x[0], vectors)
	}
	return sum + squaresGeneric(x[n:])
}

func times(y, x, w []float32, s float32) {
	n, vectors := wholeVectors(len(y))
	switch {
	case n == 0:
	case useAVX512:
		timesAVX512(&y[0], &x[0], &w[0], s, vectors)
	default:
		timesAVX2(&y[0], &x[0], &w[0], s, vectors)
	}
	timesGeneric(y[n:], x[n:], w[n:], s)
}

func add(y, x []float32) {
	n, vectors := wholeVectors(len(x))
	switch {
	case n == 0:
	case useAVX512:
		addAVX512(&y[0], &x[0], vectors)
	default:
		addAVX2(&y[0], &x[0], vectors)
	}
	addGeneric(y[n:], x[n:])
}
