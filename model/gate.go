package model

import (
	"fmt"
	"math"
)

// gate is what an MLP makes of its two projections: h = act(gate)·up.
type gate uint8

const (
	silu    gate = iota // g·σ(g)·u
	gelu                // g·Φ(g)·u, with the tanh approximation of Φ
	clamped             // g·σ(1.702 g)·(u + 1), g ≤ 7, |u| ≤ 7
)

// gateNamed is the gate that a file's activation means. It wraps ErrConfig.
func gateNamed(activation string) (gate, error) {
	switch activation {
	case "silu", "swish":
		return silu, nil
	case "gelu_pytorch_tanh", "gelu_new":
		return gelu, nil
	}
	return 0, fmt.Errorf("%w: activation %q is not supported", ErrConfig, activation)
}

// apply is h = act(g)·u. h may be g or u.
func (k gate) apply(h, g, u []float32) {
	u = u[:len(g)]
	h = h[:len(g)]
	switch k {
	case silu:
		for i, x := range g {
			h[i] = x * sigmoid(x) * u[i]
		}
	case gelu:
		for i, x := range g {
			h[i] = x * normalCDF(x) * u[i]
		}
	case clamped:
		const limit, slope = 7, 1.702
		for i, x := range g {
			x = min(x, limit)
			h[i] = x * sigmoid(slope*x) * (min(max(u[i], -limit), limit) + 1)
		}
	}
}

func sigmoid(x float32) float32 { return float32(1 / (1 + math.Exp(-float64(x)))) }

// normalCDF is the tanh approximation of Φ: (1 + tanh(√(2/π)(x + 0.044715x³)))/2 = σ(2√(2/π)(…)).
func normalCDF(x float32) float32 {
	const c = 1.5957691216057308 // 2√(2/π)
	y := float64(x)
	return float32(1 / (1 + math.Exp(-c*(y+0.044715*y*y*y))))
}

// softcap bounds x to (−limit, limit): limit·tanh(x/limit).
func softcap(x []float32, limit float64) {
	for i, v := range x {
		x[i] = float32(limit * math.Tanh(float64(v)/limit))
	}
}
