package model

import "math"

// rmsNorm is y = x / √(mean(x²) + eps) · weight; y may be x.
func rmsNorm(y, x, weight []float32, eps float64) {
	sum := 0.0
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	scale := float32(1 / math.Sqrt(sum/float64(len(x))+eps))
	for i, v := range x {
		y[i] = v * scale * weight[i]
	}
}

// normRows norms n rows of len(weight) elements, as [rmsNorm].
func normRows(y, x, weight []float32, eps float64) {
	for size := len(weight); len(x) > 0; x, y = x[size:], y[size:] {
		rmsNorm(y[:size], x[:size], weight, eps)
	}
}

// add is y += x.
func add(y, x []float32) {
	for i, v := range x {
		y[i] += v
	}
}
