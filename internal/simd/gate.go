package simd

import "math"

// Gate computes
//
//	h_i = g_i·σ(a_i)·u_i,  i < len(h),  σ(a) = 1/(1 + e^−a)
//
// h may be any of the others.
func Gate(h, g, a, u []float32) { gate(h, g[:len(h)], a[:len(h)], u[:len(h)]) }

func gateGeneric(h, g, a, u []float32) {
	for i, x := range a {
		h[i] = g[i] * float32(1/(1+math.Exp(-float64(x)))) * u[i]
	}
}
