package attn

import (
	"fmt"
	"math"
)

// KeyValues is one sequence's keys and values, whatever holds them.
type KeyValues interface {
	// Len is the number of keys.
	Len() int
	// Key fills dst [KeyDim] with the key of a KV head at a position.
	Key(dst []float32, head, pos int)
	// Value fills dst [ValueDim] with the value of a KV head at a position.
	Value(dst []float32, head, pos int)
}

// Reference is the float64 result of [Direct], with what a row's limits are
// relative to: see [Limits].
type Reference struct {
	Out []float64 // [NumQueries, NumHeads, ValueDim]
	LSE []float64 // [NumQueries, NumHeads] natural, the sink counted in
	// AbsScore is what a row's scores are made of before signs cancel: the
	// average, under the softmax weights, of |scale|·Σ|q_i·k_i|.
	AbsScore []float64 // [NumQueries, NumHeads] in the unit of scores
	// AbsValue is the largest finite |v| that a row sees.
	AbsValue []float64 // [NumQueries, NumHeads]
}

// Direct is the direct softmax of derivation §2.6, in float64 throughout:
//
//	o = Σ exp(s_j − m)·v_j / Σ exp(s_j − m),  m = max s_j
//
// over the keys that each query sees. Everything else in this project is judged
// by it. q is [NumQueries, NumHeads, KeyDim]; seq is the sequence's place in the
// step, which only a mask looks at. It wraps [ErrShape] and [ErrOption].
func Direct(shape Shape, opt *Options, seq int, q []float32, kv KeyValues) (Reference, error) {
	n, err := countQueries(shape, q)
	if err != nil {
		return Reference{}, err
	}
	return DirectBlock(shape, opt, seq, q, kv, 0, n)
}

// DirectBlock is [Direct] for some of a sequence's new queries: those in q are
// the first-th and following of numQueries, and keep the positions and the mask
// rows that they have among all.
func DirectBlock(shape Shape, opt *Options, seq int, q []float32, kv KeyValues, first, numQueries int) (Reference, error) {
	n, err := countQueries(shape, q)
	if err != nil {
		return Reference{}, err
	}
	if first < 0 || first > numQueries || n > numQueries-first {
		return Reference{}, fmt.Errorf("%w: queries %d and %d following, want some of %d", ErrShape, first, n, numQueries)
	}
	if err := opt.Validate(shape); err != nil {
		return Reference{}, err
	}
	if kv == nil {
		return Reference{}, fmt.Errorf("%w: the keys and values are nil", ErrOption)
	}
	if length := kv.Len(); length < 0 || length > maxKeys {
		return Reference{}, fmt.Errorf("%w: %d keys, want 0 to %d", ErrShape, length, maxKeys)
	}
	if opt.Mask != nil {
		if err := opt.Mask.fits(seq, kv.Len(), numQueries); err != nil {
			return Reference{}, err
		}
	}
	rows := n * shape.NumHeads
	out, err := bufferSize(rows, shape.ValueDim)
	if err != nil {
		return Reference{}, err
	}
	ref := Reference{
		Out:      make([]float64, out),
		LSE:      make([]float64, rows),
		AbsScore: make([]float64, rows),
		AbsValue: make([]float64, rows),
	}
	for head := range shape.NumKVHeads {
		d := direct{&ref, shape, opt, seq, head, q, kv, first, numQueries}
		d.compute(n * shape.GroupSize())
	}
	return ref, nil
}

// countQueries is how many queries q holds.
func countQueries(shape Shape, q []float32) (int, error) {
	if err := shape.Validate(); err != nil {
		return 0, err
	}
	row := shape.NumHeads * shape.KeyDim
	if len(q)%row != 0 {
		return 0, fmt.Errorf("%w: q has %d elements, want a multiple of %d query heads × key dim %d", ErrShape, len(q), shape.NumHeads, shape.KeyDim)
	}
	return len(q) / row, nil
}

// direct computes the rows of one KV head. Row r is the query of q with index
// r / GroupSize, with query head head·GroupSize + r mod GroupSize.
type direct struct {
	ref        *Reference
	shape      Shape
	opt        *Options
	seq        int
	head       int
	q          []float32
	kv         KeyValues
	first      int // what q's first query is among all
	numQueries int // all new queries of the sequence
}

// scoreBudget is how many scores compute keeps at a time (two float64 each, so
// 8 MB): keys are read once for as many rows as fit.
const scoreBudget = 1 << 19

func (d *direct) compute(rows int) {
	length := d.kv.Len()
	rowsAtOnce := min(rows, max(1, scoreBudget/max(length, 1)))
	scores, abs := make([]float64, rowsAtOnce*length), make([]float64, rowsAtOnce*length)
	for first := 0; first < rows; first += rowsAtOnce {
		last := min(first+rowsAtOnce, rows)
		d.score(scores, abs, first, last)
		d.weigh(scores, abs, first, last)
		d.average(scores, first, last)
	}
}

// at returns a row's query, its query head and its place in the reference.
func (d *direct) at(r int) (query, head, place int) {
	group := d.shape.GroupSize()
	index, head := r/group, d.head*group+r%group
	return d.first + index, head, index*d.shape.NumHeads + head
}

// score fills scores [last − first, length], where hidden keys get −Inf, and abs,
// the like of absolute products.
func (d *direct) score(scores, abs []float64, first, last int) {
	length := d.kv.Len()
	scale := d.opt.ScaleFor(d.shape.KeyDim)
	key := make([]float32, d.shape.KeyDim)
	for j := range length {
		loaded := false
		for r := first; r < last; r++ {
			at := (r-first)*length + j
			query, head, place := d.at(r)
			if !d.opt.Sees(d.seq, length, d.numQueries, query, j) {
				scores[at] = math.Inf(-1)
				continue
			}
			if !loaded {
				d.kv.Key(key, d.head, j)
				loaded = true
			}
			qk, absQK := dot(d.q[place*d.shape.KeyDim:][:d.shape.KeyDim], key)
			scores[at] = d.opt.Score(qk, scale, head, j-(length-d.numQueries+query))
			abs[at] = math.Abs(scale) * absQK
		}
	}
}

// hidden marks the weight of a key that its row does not see.
const hidden = -1

// weigh turns each row of scores into weights exp(s − m)/l, and writes its LSE
// and AbsScore.
func (d *direct) weigh(scores, abs []float64, first, last int) {
	length := d.kv.Len()
	for r := first; r < last; r++ {
		_, head, place := d.at(r)
		row := scores[(r-first)*length:][:length]
		sink := math.Inf(-1)
		if d.opt.Sinks != nil {
			sink = float64(d.opt.Sinks[head])
		}
		d.ref.LSE[place] = softmax(row, sink)
		for j, x := range abs[(r-first)*length:][:length] {
			if row[j] != hidden && row[j] != 0 {
				d.ref.AbsScore[place] += row[j] * x
			}
		}
	}
}

// softmax turns a row of scores into weights, and returns its LSE.
func softmax(row []float64, sink float64) (lse float64) {
	m := sink
	for _, s := range row {
		m = math.Max(m, s)
	}
	l := 0.0
	if !math.IsInf(sink, -1) {
		l = math.Exp(sink - m)
	}
	for j, s := range row {
		if math.IsInf(s, -1) {
			row[j] = hidden
			continue
		}
		row[j] = math.Exp(s - m)
		l += row[j]
	}
	for j := range row {
		if row[j] != hidden {
			row[j] /= l
		}
	}
	if math.IsInf(m, -1) {
		return m
	}
	return m + math.Log(l)
}

// average sums the values under the weights.
func (d *direct) average(weights []float64, first, last int) {
	length, dim := d.kv.Len(), d.shape.ValueDim
	value := make([]float32, dim)
	for j := range length {
		loaded, largest := false, 0.0
		for r := first; r < last; r++ {
			p := weights[(r-first)*length+j]
			if p == hidden {
				continue
			}
			if !loaded {
				d.kv.Value(value, d.head, j)
				loaded, largest = true, maxAbs(value)
			}
			_, _, place := d.at(r)
			d.ref.AbsValue[place] = max(d.ref.AbsValue[place], largest)
			out := d.ref.Out[place*dim:][:dim]
			for i, v := range value {
				out[i] += p * float64(v)
			}
		}
	}
}

// dot is Σ a·b and Σ |a·b|, in float64.
func dot(a, b []float32) (sum, abs float64) {
	for i, x := range a {
		product := float64(x) * float64(b[i])
		sum += product
		abs += math.Abs(product)
	}
	return sum, abs
}

// maxAbs is the largest finite |x|, 0 when there is none.
func maxAbs(x []float32) float64 {
	largest := 0.0
	for _, v := range x {
		if a := math.Abs(float64(v)); a > largest && isFinite(a) {
			largest = a
		}
	}
	return largest
}
