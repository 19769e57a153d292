package model

import (
	"math"

	"github.com/flashdec/flashdec/internal/simd"
)

// rmsNorm is y = x / √(mean(x²) + eps) · weight; y may be x.
func rmsNorm(y, x, weight []float32, eps float64) {
	simd.Times(y, x, weight, float32(1/math.Sqrt(simd.Squares(x)/float64(len(x))+eps)))
}

// normRows norms n rows of len(weight) elements, as [rmsNorm].
func normRows(y, x, weight []float32, eps float64) {
	for size := len(weight); len(x) > 0; x, y = x[size:], y[size:] {
		rmsNorm(y[:size], x[:size], weight, eps)
	}
}
