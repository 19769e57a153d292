package attn

import (
	"fmt"
	"math"
)

// States are many float32 states in three arrays, one row a query row: what a
// decode step yields when it is asked for states instead of outputs.
type States struct {
	ValueDim int
	M        []float32 // [rows] natural; −Inf where the row saw no key
	L        []float32 // [rows]
	O        []float32 // [rows, ValueDim]
}

// MakeStates returns rows empty states; none, where no buffer can have that many
// elements.
func MakeStates(rows, valueDim int) States {
	if _, err := bufferSize(rows, max(valueDim, 1)); err != nil || valueDim < 0 {
		return States{}
	}
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

// has reports whether there is a row i, and all of it.
func (s *States) has(i int) bool {
	return i >= 0 && s.ValueDim >= 0 && i < len(s.M) && i < len(s.L) && (s.ValueDim == 0 || i < len(s.O)/s.ValueDim)
}

// Row is the state of row i, the empty one where there is no such row. Its O is a
// view.
func (s *States) Row(i int) State[float32] {
	if !s.has(i) {
		return State[float32]{M: math.Inf(-1)}
	}
	return State[float32]{
		M: float64(s.M[i]),
		L: float64(s.L[i]),
		O: s.O[i*s.ValueDim : (i+1)*s.ValueDim : (i+1)*s.ValueDim],
	}
}

// Set stores a state as row i, rounding M and L to float32, where there is such a
// row. Storing what [States.Row] returned copies nothing.
func (s *States) Set(i int, a State[float32]) {
	if !s.has(i) {
		return
	}
	s.M[i], s.L[i] = float32(a.M), float32(a.L)
	copyOrZero(s.O[i*s.ValueDim:(i+1)*s.ValueDim], a.O)
}

// Merge sets each row of s to the merge of that row of parts, which may include
// s itself; of no parts, to the empty state. It wraps [ErrShape].
func (s *States) Merge(parts ...*States) error {
	if err := s.check(); err != nil {
		return err
	}
	for i, p := range parts {
		if err := p.check(); err != nil {
			return fmt.Errorf("part %d: %w", i, err)
		}
		if p.ValueDim != s.ValueDim || len(p.M) != len(s.M) {
			return fmt.Errorf("%w: part %d has %d rows of value dim %d, want %d of %d", ErrShape, i, len(p.M), p.ValueDim, len(s.M), s.ValueDim)
		}
	}
	states := make([]State[float32], len(parts))
	for row := range s.M {
		for i, p := range parts {
			states[i] = p.Row(row)
		}
		dst := s.Row(row)
		Merge(&dst, states...)
		s.M[row], s.L[row] = float32(dst.M), float32(dst.L)
	}
	return nil
}

// check refuses arrays that do not belong together.
func (s *States) check() error {
	if s == nil {
		return fmt.Errorf("%w: the states are nil", ErrShape)
	}
	if n, err := bufferSize(len(s.M), s.ValueDim); err != nil || len(s.L) != len(s.M) || len(s.O) != n {
		return fmt.Errorf("%w: states of value dim %d have %d elements of m, %d of l and %d of o, want as many of m and l, and value dim times as many of o",
			ErrShape, s.ValueDim, len(s.M), len(s.L), len(s.O))
	}
	return nil
}

// Output turns final states into outputs: it adds each head's sink, once, and
// writes out [rows, ValueDim] and, unless nil, the natural lse [rows]. Row r
// belongs to query head r mod numHeads. sinks may be nil. It wraps [ErrShape].
func (s *States) Output(out, lse []float32, numHeads int, sinks []float32) error {
	if err := s.check(); err != nil {
		return err
	}
	rows := len(s.M)
	if numHeads < 1 || rows%numHeads != 0 || len(out) != rows*s.ValueDim ||
		lse != nil && len(lse) != rows || sinks != nil && len(sinks) != numHeads {
		return fmt.Errorf("%w: %d rows of value dim %d, but out has %d elements, lse %d, sinks %d, for %d query heads",
			ErrShape, rows, s.ValueDim, len(out), len(lse), len(sinks), numHeads)
	}
	for r := range rows {
		state := s.Row(r)
		dst := State[float32]{O: out[r*s.ValueDim : (r+1)*s.ValueDim]}
		sink := State[float32]{M: math.Inf(-1)}
		if sinks != nil {
			sink = SinkState[float32](sinks[r%numHeads])
		}
		Merge(&dst, state, sink)
		if lse != nil {
			lse[r] = float32(dst.LSE())
		}
	}
	return nil
}
