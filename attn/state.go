package attn

import "math"

// Float is the element type of a state's output vector.
type Float interface{ float32 | float64 }

// State is what a set of keys contributes to one query row (derivation §2.4.1).
// States of disjoint key sets merge exactly, in any grouping: see [Merge].
//
// The state of no keys is (−Inf, 0, 0). It is known by M = −Inf alone: the O of
// an empty state is never read.
type State[F Float] struct {
	M float64 // largest score, natural-log units; −Inf when empty
	L float64 // Σ exp(s − M)
	O []F     // [ValueDim] Σ exp(s − M)·v / L; what it lacks is zero, so nil is all zeros
}

// Empty returns the state of no keys. A valueDim that is not one of a [Shape] leaves
// O nil, which stands for zeros.
func Empty[F Float](valueDim int) State[F] {
	if valueDim < 1 || valueDim > maxDim {
		return State[F]{M: math.Inf(-1)}
	}
	return State[F]{M: math.Inf(-1), O: make([]F, valueDim)}
}

// SinkState returns the state of a learned sink, a natural-log score: one exp(sink)
// in the denominator and no value. Merge it exactly once, last. A sink of −Inf is the
// empty state; one of +Inf makes the row NaN, as a score of +Inf does.
func SinkState[F Float](sink float32) State[F] {
	m := float64(sink)
	if math.IsInf(m, -1) {
		return State[F]{M: m}
	}
	return State[F]{M: m, L: math.Exp(m - m)}
}

// Empty reports whether the state holds no keys.
func (a *State[F]) Empty() bool { return math.IsInf(a.M, -1) }

// LSE is ln Σ exp(s) = M + ln L over the state's keys; −Inf when empty.
func (a *State[F]) LSE() LSE {
	if a.Empty() {
		return LSE(math.Inf(-1))
	}
	return LSE(a.M + math.Log(a.L))
}

// Push adds one key by the recurrence of derivation §2.5 (2c), read literally:
//
//	m' = max(m, s)
//	l' = l·exp(m − m') + exp(s − m')
//	o' = (l·exp(m − m')·o + exp(s − m')·v) / l'
//
// A score of −Inf has no weight and leaves the state as it is. A NaN score or
// value makes the state NaN, however little the key weighs, then or later. An O that is shorter than v grows to its length; a
// v that is shorter than O is zero beyond.
func (a *State[F]) Push(s float64, v []F) {
	if math.IsInf(s, -1) {
		return
	}
	a.O = lengthened(a.O, len(v))
	m := math.Max(a.M, s)
	first, history := a.Empty(), 0.0
	if !first {
		history = a.L * math.Exp(a.M-m)
	}
	p := math.Exp(s - m)
	l := history + p
	for d := range a.O {
		sum := 0.0
		if !first { // also where it weighs nothing any more: a NaN stays one
			sum = history * float64(a.O[d])
		}
		if d < len(v) {
			sum += p * float64(v[d])
		}
		a.O[d] = F(sum / l)
	}
	a.M, a.L = m, l
}

// lengthened is o with zeros behind, as far as it is shorter than n.
func lengthened[F Float](o []F, n int) []F {
	if len(o) >= n {
		return o
	}
	longer := make([]F, n)
	copy(longer, o)
	return longer
}

// mergeGroup is how many states one pass of the merge weighs together. It keeps
// the weights on the stack; more states are merged group by group, which the
// law allows.
const mergeGroup = 64

// Merge sets dst to the merge of states (derivation §2.4.2):
//
//	m = max m_b
//	l = Σ exp(m_b − m)·l_b
//	o = Σ exp(m_b − m)·l_b·o_b / l
//
// Sums run in the order given, in float64, so the same states in the same order
// give the same bits. Empty states are skipped, whatever their O holds; if all
// are empty, dst is empty; if one is not, dst equals it bit for bit. dst.O has
// ValueDim elements and may share memory with the O of a state. What the O of a
// state has beyond is left out.
func Merge[F Float](dst *State[F], states ...State[F]) {
	if dst == nil {
		return
	}
	if len(states) <= mergeGroup {
		mergeOnce(dst, states)
		return
	}
	mergeOnce(dst, states[:mergeGroup])
	var group [mergeGroup]State[F]
	for rest := states[mergeGroup:]; len(rest) > 0; {
		n := min(len(rest), mergeGroup-1)
		group[0] = *dst
		copy(group[1:], rest[:n])
		mergeOnce(dst, group[:n+1])
		rest = rest[n:]
	}
}

// Weigh sets weight[b] to exp(m_b − m)·l_b, what a state's o weighs in [Merge] before
// the division, and returns
//
//	m = max m_b
//	l = Σ weight_b
//
// It is for those who average by themselves. Empty states weigh nothing, and of
// nothing but them m is −Inf and l is 0. States that weight has no room for are left
// out.
func Weigh[F Float](weight []float64, states []State[F]) (m, l float64) {
	states = states[:min(len(states), len(weight))]
	m = math.Inf(-1)
	for b := range states {
		if !states[b].Empty() {
			m = math.Max(m, states[b].M) // NaN if any is NaN
		}
	}
	for b := range states {
		if weight[b] = 0; !states[b].Empty() {
			weight[b] = math.Exp(states[b].M-m) * states[b].L
			l += weight[b]
		}
	}
	return m, l
}

// mergeOnce merges at most mergeGroup states.
func mergeOnce[F Float](dst *State[F], states []State[F]) {
	n, last := 0, -1
	for b := range states {
		if !states[b].Empty() {
			last = b
			n++
		}
	}
	switch n {
	case 0:
		setEmpty(dst)
		return
	case 1:
		dst.M, dst.L = states[last].M, states[last].L
		copyOrZero(dst.O, states[last].O)
		return
	}
	var (
		weight [mergeGroup]float64
		o      [mergeGroup][]F
	)
	m, l := Weigh(weight[:], states)
	n = 0
	for b := range states {
		if !states[b].Empty() && states[b].O != nil {
			weight[n], o[n] = weight[b], lengthened(states[b].O, len(dst.O))
			n++
		}
	}
	average(dst.O, weight[:n], o[:n], l)
	dst.M, dst.L = m, l
}

// average is dst = Σ_b weight_b·o_b / l. It takes four elements at a time, whose
// sums need not wait for one another.
func average[F Float](dst []F, weight []float64, o [][]F, l float64) {
	d := 0
	for ; d+4 <= len(dst); d += 4 {
		var s0, s1, s2, s3 float64
		for b, w := range weight {
			x := o[b][d:][:4]
			s0 += w * float64(x[0])
			s1 += w * float64(x[1])
			s2 += w * float64(x[2])
			s3 += w * float64(x[3])
		}
		dst[d], dst[d+1], dst[d+2], dst[d+3] = F(s0/l), F(s1/l), F(s2/l), F(s3/l)
	}
	for ; d < len(dst); d++ {
		sum := 0.0
		for b, w := range weight {
			sum += w * float64(o[b][d])
		}
		dst[d] = F(sum / l)
	}
}

func setEmpty[F Float](dst *State[F]) {
	dst.M, dst.L = math.Inf(-1), 0
	clear(dst.O)
}

// copyOrZero sets dst to src, with zeros behind.
func copyOrZero[F Float](dst, src []F) {
	clear(dst[copy(dst, src):])
}
