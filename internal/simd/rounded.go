package simd

// RoundedRows are the fewest rows of a group that gain by rounded weights of values of type e:
// fewer wait for memory, but 8-bit floats, which want half as much of it, wait for their look-up
// (docs/calibration.md).
func RoundedRows(e Elem) int {
	if e == BF16 {
		return 5
	}
	return 1
}

// RoundedRow is what rows of values of type e are multiples of, in elements, for kernels that gain by
// rounded weights.
func RoundedRow(e Elem) int {
	if e == BF16 {
		return 32
	}
	return 64
}

// RoundWeights rounds weights to bfloat16, ties to either side, and sums them up:
//
//	p[r·stride+j] = bfloat16(p[r·stride+j])
//	l[r] = l[r]·alpha[r] + Σ_j p[r·stride+j],  r < rows, j < keys
//
// in float32. An alpha of 0 begins a sum: l[r] is finite then. The −0 of a hidden key stays −0,
// and weights below 2⁻¹²⁶ keep what digits they have.
func RoundWeights(p []float32, stride, rows, keys int, l, alpha []float32) {
	roundWeights(p, stride, rows, keys, l, alpha)
}

// AccumulateRounded is [Accumulate] for weights that [RoundWeights] has rounded, where the
// current level does that faster for several rows, and else nil. Its sums have the bits of
// Accumulate's, except that numbers below 2⁻¹²⁶, be they weights, values or sums, may be
// taken for zeros.
func AccumulateRounded(e Elem) AccumulateFunc {
	f := accumulateRoundedFor(e)
	if f == nil {
		return nil
	}
	return f.one()
}

// HeadsAccumulateRounded is [AccumulateRounded] for heads side by side.
func HeadsAccumulateRounded(e Elem) HeadsAccumulateFunc { return accumulateRoundedFor(e) }

// roundWeightsGeneric rounds with c = (2¹⁶ + 1)·p: the 8 digits of c − (c − p) are p's, rounded.
func roundWeightsGeneric(p []float32, stride, rows, keys int, l, alpha []float32) {
	for r := range rows {
		sum := float32(0)
		for j, x := range p[r*stride:][:keys] {
			c := float32((1<<16 + 1) * x)
			x = c - float32(c-x)
			p[r*stride+j] = x
			sum += x
		}
		l[r] = float32(l[r]*alpha[r]) + sum
	}
}
