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

// Reference is the float64 result of [Direct].
type Reference struct {
	Out []float64 // [NumQueries, NumHeads, ValueDim]
	LSE []float64 // [NumQueries, NumHeads] natural, the sink counted in
}

// Direct is the direct softmax of derivation §2.6, in float64 throughout:
//
//	o = Σ exp(s_j − m)·v_j / Σ exp(s_j − m),  m = max s_j
//
// over the keys that each query sees. Everything else in this project is judged
// by it. q is [NumQueries, NumHeads, KeyDim]; seq is the sequence's place in the
// step, which only a mask looks at. It wraps [ErrShape] and [ErrOption].
func Direct(shape Shape, opt *Options, seq int, q []float32, kv KeyValues) (Reference, error) {
	if err := shape.Validate(); err != nil {
		return Reference{}, err
	}
	if err := opt.Validate(shape); err != nil {
		return Reference{}, err
	}
	row := shape.NumHeads * shape.KeyDim
	if len(q)%row != 0 {
		return Reference{}, fmt.Errorf("%w: q has %d elements, want a multiple of %d query heads × key dim %d", ErrShape, len(q), shape.NumHeads, shape.KeyDim)
	}
	n := len(q) / row
	if opt.Mask != nil {
		if err := opt.Mask.fits(seq, kv.Len(), n); err != nil {
			return Reference{}, err
		}
	}
	ref := Reference{
		Out: make([]float64, n*shape.NumHeads*shape.ValueDim),
		LSE: make([]float64, n*shape.NumHeads),
	}
	for head := range shape.NumKVHeads {
		DirectHead(&ref, shape, opt, seq, head, q, kv)
	}
	return ref, nil
}

// scoreBudget is how many scores DirectHead keeps at a time (float64, so 8 MB):
// keys are read once for as many rows as fit.
const scoreBudget = 1 << 20

// DirectHead computes the rows of ref that belong to one KV head. Calls for
// different heads may run at the same time. The arguments are [Direct]'s and
// must have passed its checks; ref has room for all rows.
func DirectHead(ref *Reference, shape Shape, opt *Options, seq, head int, q []float32, kv KeyValues) {
	n := len(q) / (shape.NumHeads * shape.KeyDim)
	group := shape.GroupSize()
	length := kv.Len()
	rowsAtOnce := max(1, scoreBudget/max(length, 1))
	scores := make([]float64, min(rowsAtOnce, n*group)*length)
	d := direct{ref, shape, opt, seq, head, q, kv, n}
	for first := 0; first < n*group; first += rowsAtOnce {
		last := min(first+rowsAtOnce, n*group)
		d.score(scores, first, last)
		d.weigh(scores, first, last)
		d.average(scores, first, last)
	}
}

// direct carries the arguments of DirectHead. Row r of a head is query
// r / GroupSize with query head head·GroupSize + r mod GroupSize.
type direct struct {
	ref   *Reference
	shape Shape
	opt   *Options
	seq   int
	head  int
	q     []float32
	kv    KeyValues
	n     int // queries
}

// at returns a row's query, its query head and its place in the reference.
func (d *direct) at(r int) (query, head, place int) {
	group := d.shape.GroupSize()
	query, head = r/group, d.head*group+r%group
	return query, head, query*d.shape.NumHeads + head
}

// score fills scores [last − first, length]; hidden keys get −Inf.
func (d *direct) score(scores []float64, first, last int) {
	length := d.kv.Len()
	scale := d.opt.ScaleFor(d.shape.KeyDim)
	key := make([]float32, d.shape.KeyDim)
	for j := range length {
		loaded := false
		for r := first; r < last; r++ {
			s := &scores[(r-first)*length+j]
			query, head, place := d.at(r)
			if !d.opt.Sees(d.seq, length, d.n, query, j) {
				*s = math.Inf(-1)
				continue
			}
			if !loaded {
				d.kv.Key(key, d.head, j)
				loaded = true
			}
			qk := dot(d.q[place*d.shape.KeyDim:][:d.shape.KeyDim], key)
			*s = d.opt.Score(qk, scale, head, j-(length-d.n+query))
		}
	}
}

// hidden marks the weight of a key that its row does not see.
const hidden = -1

// weigh turns each row of scores into weights exp(s − m)/l, and writes its LSE.
func (d *direct) weigh(scores []float64, first, last int) {
	length := d.kv.Len()
	for r := first; r < last; r++ {
		_, head, place := d.at(r)
		row := scores[(r-first)*length:][:length]
		sink := math.Inf(-1)
		if d.opt.Sinks != nil {
			sink = float64(d.opt.Sinks[head])
		}
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
		d.ref.LSE[place] = m
		if !math.IsInf(m, -1) {
			d.ref.LSE[place] = m + math.Log(l)
		}
	}
}

// average sums the values under the weights.
func (d *direct) average(weights []float64, first, last int) {
	length, dim := d.kv.Len(), d.shape.ValueDim
	for r := first; r < last; r++ {
		_, _, place := d.at(r)
		clear(d.ref.Out[place*dim:][:dim])
	}
	value := make([]float32, dim)
	for j := range length {
		loaded := false
		for r := first; r < last; r++ {
			p := weights[(r-first)*length+j]
			if p == hidden {
				continue
			}
			if !loaded {
				d.kv.Value(value, d.head, j)
				loaded = true
			}
			_, _, place := d.at(r)
			out := d.ref.Out[place*dim:][:dim]
			for i, v := range value {
				out[i] += p * float64(v)
			}
		}
	}
}

// dot is Σ a·b in float64.
func dot(a, b []float32) float64 {
	sum := 0.0
	for i, x := range a {
		sum += float64(x) * float64(b[i])
	}
	return sum
}
