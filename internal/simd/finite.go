package simd

// Finite reports whether x is neither NaN nor an infinity: those less themselves are NaN.
func Finite[F float32 | float64](x F) bool { return x-x == 0 }
