package backendtest

import (
	"math"

	"github.com/flashdec/flashdec/kv"
)

// lowPrecisionError is E of the tolerance rule: the largest error, against
// float64, of a plain attention that rounds scores, weights and outputs to the
// type of sequence i's values, on the same numbers.
func lowPrecisionError(s *Step, i int) float64 {
	first := 0
	for j := range i {
		first += s.Case.numQueries(j)
	}
	worst := 0.0
	for query := range s.Case.numQueries(i) {
		for head := range s.Case.Shape.NumHeads {
			place := query*s.Case.Shape.NumHeads + head
			q := s.Q[(first*s.Case.Shape.NumHeads+place)*s.Case.Shape.KeyDim:][:s.Case.Shape.KeyDim]
			out := lowPrecisionRow(sequence{s.Case, i}, query, head, q)
			for d, x := range out {
				if diff := math.Abs(x - s.refs[i].Out[place*len(out)+d]); diff > worst {
					worst = diff // a NaN is no error: it is compared by position
				}
			}
		}
	}
	return worst
}

// lowPrecisionRow is one row of plain attention, its steps rounded.
func lowPrecisionRow(seq sequence, query, head int, q []float32) []float64 {
	c := seq.Case
	n, kvHead, t := seq.Len(), head/c.Shape.GroupSize(), c.VType
	scores, m := lowPrecisionScores(seq, query, head, q)
	l := 0.0
	if c.Options.Sinks != nil {
		m = max(m, float64(c.Options.Sinks[head]))
		l = math.Exp(float64(c.Options.Sinks[head]) - m)
	}
	for j, x := range scores {
		scores[j] = round(math.Exp(x-m), t)
		l += scores[j]
	}
	out, value := make([]float64, c.Shape.ValueDim), make([]float32, c.Shape.ValueDim)
	for j := range n {
		if scores[j] == 0 {
			continue
		}
		seq.Value(value, kvHead, j)
		for d, v := range value {
			out[d] += round(scores[j]/l, t) * float64(v)
		}
	}
	for d := range out {
		out[d] = round(out[d], t)
	}
	return out
}

// lowPrecisionScores are the rounded scores, −Inf where hidden, and their largest.
func lowPrecisionScores(seq sequence, query, head int, q []float32) (scores []float64, m float64) {
	c := seq.Case
	n, kvHead := seq.Len(), head/c.Shape.GroupSize()
	scores, m = make([]float64, n), math.Inf(-1)
	key := make([]float32, c.Shape.KeyDim)
	scale := c.Options.ScaleFor(c.Shape.KeyDim)
	for j := range scores {
		scores[j] = math.Inf(-1)
		if !c.Options.Sees(seq.seq, n, c.numQueries(seq.seq), query, j) {
			continue
		}
		seq.Key(key, kvHead, j)
		qk := 0.0
		for d, x := range q {
			qk += float64(x) * float64(key[d])
		}
		distance := j - (n - c.numQueries(seq.seq) + query)
		scores[j] = round(c.Options.Score(qk, scale, head, distance), c.KType)
		m = math.Max(m, scores[j])
	}
	return scores, m
}

// round is x to the nearest number of type t's precision, its range aside.
func round(x float64, t kv.DType) float64 {
	if x == 0 || math.IsNaN(x) || math.IsInf(x, 0) {
		return x
	}
	frac, exp := math.Frexp(x)
	unit := float64(int(1) << significand(t))
	return math.Ldexp(math.RoundToEven(frac*unit)/unit, exp)
}
