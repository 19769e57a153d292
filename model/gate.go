package model

import (
	"fmt"
	"math"

	"github.com/flashdec/flashdec/internal/network"
	"github.com/flashdec/flashdec/internal/simd"
)

// gateNamed is the gate that a file's activation means. It wraps ErrConfig.
func gateNamed(activation string) (network.Gate, error) {
	switch activation {
	case "silu", "swish":
		return network.SiLU, nil
	case "gelu_pytorch_tanh", "gelu_new":
		return network.GELU, nil
	}
	return 0, fmt.Errorf("%w: activation %q is not supported", ErrConfig, activation)
}

// applyGate is h = act(g)·u. h may be g or u.
func applyGate(k network.Gate, h, g, u []float32) {
	if k == network.SiLU {
		simd.Gate(h, g, g, u)
		return
	}
	var of gateArgs
	for len(g) > 0 {
		n := min(len(g), len(of.a))
		x, a, y := of.of(k, g[:n], u[:n])
		simd.Gate(h[:n], x, a, y)
		h, g, u = h[n:], g[n:], u[n:]
	}
}

// gateArgs is room for what [simd.Gate] is given.
type gateArgs struct{ x, a, y [128]float32 }

// of are x, a and y of x·σ(a)·y, which is act(g)·u.
func (r *gateArgs) of(k network.Gate, g, u []float32) (x, a, y []float32) {
	switch k {
	case network.GELU: // the tanh approximation of Φ: (1 + tanh(√(2/π)(g + 0.044715g³)))/2 = σ(2√(2/π)(…))
		const c = 1.5957691216057308 // 2√(2/π)
		for i, v := range g {
			r.a[i] = float32(c * (float64(v) + 0.044715*float64(v)*float64(v)*float64(v)))
		}
		return g, r.a[:len(g)], u
	case network.Clamped:
		const limit, slope = 7, 1.702
		for i, v := range g {
			r.x[i] = min(v, limit)
			r.a[i] = slope * r.x[i]
			r.y[i] = min(max(u[i], -limit), limit) + 1
		}
		return r.x[:len(g)], r.a[:len(g)], r.y[:len(g)]
	}
	return g, g, u
}

// softcap bounds x to (−limit, limit): limit·tanh(x/limit).
func softcap(x []float32, limit float64) {
	for i, v := range x {
		x[i] = float32(limit * math.Tanh(float64(v)/limit))
	}
}
