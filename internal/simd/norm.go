package simd

// Squares is Σ x_i², in float64.
func Squares(x []float32) float64 { return squares(x) }

// Times computes
//
//	y_i = x_i·s·w_i,  i < len(y)
//
// y may be x.
func Times(y, x, w []float32, s float32) { times(y, x[:len(y)], w[:len(y)], s) }

// Add computes y_i += x_i, i < len(x).
func Add(y, x []float32) { add(y[:len(x)], x) }

// squaresGeneric adds in four sums that do not wait for each other.
func squaresGeneric(x []float32) float64 {
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

func timesGeneric(y, x, w []float32, s float32) {
	for i, v := range x {
		y[i] = v * s * w[i]
	}
}

func addGeneric(y, x []float32) {
	for i, v := range x {
		y[i] += v
	}
}
