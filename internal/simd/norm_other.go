//go:build !amd64

package simd

func squares(x []float32) float64 { return squaresGeneric(x) }

func times(y, x, w []float32, s float32) { timesGeneric(y, x, w, s) }

func add(y, x []float32) { addGeneric(y, x) }
