package attn

import "math"

// LSE is a natural log-sum-exp, ln Σ exp(s); −Inf over no keys.
type LSE float64

// LSE2 is a log-sum-exp in base 2: log2 Σ exp(s), the natural one times log2 e.
type LSE2 float64

// Base2 converts a natural log-sum-exp to base 2.
func (x LSE) Base2() LSE2 { return LSE2(x * math.Log2E) }

// Natural converts a base-2 log-sum-exp to base e.
func (x LSE2) Natural() LSE { return LSE(x * math.Ln2) }

// FromLSE is the border for a state that another system computed: its output
// and natural log-sum-exp. Systems spell "no keys" as −Inf, and some as +Inf;
// plusInfEmpty says that this one does. The state keeps o.
func FromLSE[F Float](x LSE, o []F, plusInfEmpty bool) State[F] {
	if plusInfEmpty && math.IsInf(float64(x), 1) {
		x = LSE(math.Inf(-1))
	}
	if math.IsInf(float64(x), -1) {
		return State[F]{M: math.Inf(-1), O: o}
	}
	return State[F]{M: float64(x), L: 1, O: o}
}
