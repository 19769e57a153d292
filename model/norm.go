package model

import "math"

// rmsNorm is y = x / √(mean(x²) + eps) · weight; y may be x.
func rmsNorm(y, x, weight []float32, eps float64) {
	scale := float32(1 / math.Sqrt(squares(x)/float64(len(x))+eps))
	y, weight = y[:len(x)], weight[:len(x)]
	for i, v := range x {
		y[i] = v * scale * weight[i]
	}
}

// squares is Σ x², in four sums that do not wait for each other.
func squares(x []float32) float64 {
	var a, b, c, d float64
	for ; len(x) >= 4; x = x[4:] {
		a += float64(x[0]) * float64(x[0])
		b += float64(x[1]) * float64(x[1])
		c += float64(x[2]) * float64(x[2])
		d += float64(x[3]) * float64(x[3])
	}
	for _, v := range x {
		a += float64(v) * float64(v)
	}
	return a + b + (c + d)
}

// normRows norms n rows of len(weight) elements, as [rmsNorm].
func normRows(y, x, weight []float32, eps float64) {
	for size := len(weight); len(x) > 0; x, y = x[size:], y[size:] {
		rmsNorm(y[:size], x[:size], weight, eps)
	}
}

// add is y += x.
func add(y, x []float32) {
	y = y[:len(x)]
	for i, v := range x {
		y[i] += v
	}
}
