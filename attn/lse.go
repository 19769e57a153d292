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

// States are many float32 states in three arrays, one row a query row: what a
// decode step yields when it is asked for states instead of outputs.
type States struct {
	ValueDim int
	M        []float32 // [rows] natural; −Inf where the row saw no key
	L        []float32 // [rows]
	O        []float32 // [rows, ValueDim]
}

// MakeStates returns rows empty states.
func MakeStates(rows, valueDim int) States {
	s := States{
		ValueDim: valueDim,
		M:        make([]float32, rows),
		L:        make([]float32, rows),
		O:        make([]float32, rows*valueDim),
	}
	for i := range s.M {
		s.M[i] = float32(math.Inf(-1))
	}
	return s
}

// Row is the state of row i. Its O is a view.
func (s *States) Row(i int) State[float32] {
	return State[float32]{
		M: float64(s.M[i]),
		L: float64(s.L[i]),
		O: s.O[i*s.ValueDim : (i+1)*s.ValueDim : (i+1)*s.ValueDim],
	}
}

// Set stores a state as row i, rounding M and L to float32. Storing what [States.Row]
// returned copies nothing.
func (s *States) Set(i int, a State[float32]) {
	s.M[i], s.L[i] = float32(a.M), float32(a.L)
	copyOrZero(s.O[i*s.ValueDim:(i+1)*s.ValueDim], a.O)
}
