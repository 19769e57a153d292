package cpu

import (
	"github.com/flashdec/flashdec/internal/simd"
	"github.com/flashdec/flashdec/plan"
)

// stream is an item under way: its query tile and the running sums of its keys.
// Row r of the tile is query r / group with query head head·group + r mod group.
type stream struct {
	*worker
	item *plan.Item

	rules    scorer     // of scores
	q        []float32  // [rows, KeyDim] times the scale, and those that keys share
	pairs    []float32  // [rows, simd.PairsLen(KeyDim)] queries that bfloat16 holds, two to a number
	paired   bool       // it holds all of them
	digits   []byte     // [rows, simd.DigitsBytes(KeyDim)] q in fixed point, for kernels that take it
	reach    simd.Reach // the scales of keys that it serves
	left     simd.Reach // and what the running chunk has left of that
	m        []float32  // [rows] this and the next two: the running chunk
	l        []float32  // [rows]
	rounded  []float32  // [rows] sums of the chunk's weights as they were rounded, where they were
	o        []float32  // [rows, ValueDim] numerators, in units
	keys     sweep      // under way
	part     part       // of the rows, under way
	kScale   []float32  // [≤ sweepKeys] what keys lists: another head has other scales
	vScale   []float32
	s        []float32 // [rows, stride] its scores, then weights
	alpha    []float32 // [rows]
	most     []float32 // [rows] weights in light digits, for kernels of integers: see simd.LightShare
	hidden   bool      // some score was −Inf
	hid      bool      // of the chunk, too
	plain    bool      // kernels for bfloat16 alone do not serve the chunk
	unit     []float32 // [rows] see lift and lower
	chunks   states    // [chunksPerMerge, rows] states of finished chunks
	finished int       // how many
}

// reserve makes room for so many rows, of those of all streams from one on.
func (c *stream) reserve(rows, from int) {
	shape := &c.job.launch.Shape
	c.q = c.worker.q[from*shape.KeyDim:][:rows*shape.KeyDim]
	if c.size.pairs {
		c.pairs = c.worker.pairs[from*shape.KeyDim:][:simd.PairsLen(c.job.kernels.k, rows*shape.KeyDim)]
	}
	if c.job.kernels.integerK != nil {
		c.digits = resize(c.digits, rows*simd.DigitsBytes(shape.KeyDim))
	}
	if c.job.kernels.integerV != nil {
		c.most = resize(c.most, rows)
	}
	c.m = resize(c.m, rows)
	c.l = resize(c.l, rows)
	c.rounded = resize(c.rounded, rows)
	c.o = c.worker.o[from*shape.ValueDim:][:rows*shape.ValueDim]
	c.unit = resize(c.unit, rows)
	c.s = c.worker.s[from*c.job.stride():][:rows*c.job.stride()]
	c.alpha = c.worker.alpha[from:][:rows]
	if c.job.scaled {
		c.kScale, c.vScale = resize(c.kScale, c.job.sweepKeys), resize(c.vScale, c.job.sweepKeys)
	}
	c.chunks.resize(chunksPerMerge*rows, shape.ValueDim)
}

// begin takes up the worker's query tile.
func (c *stream) begin() {
	l := c.job.launch
	group := c.group()
	c.finished = 0
	c.rules.begin(l.Options, l.Shape, c.item.Head)
	c.paired = c.job.pairs()
	first := c.job.place(c.seq, c.query, c.item.Head)
	for i := range c.rows / group {
		from := l.Q[(first+i*l.Shape.NumHeads)*l.Shape.KeyDim:][:group*l.Shape.KeyDim]
		c.scaledQueries(c.q[i*len(from):][:len(from)], from)
		c.paired = c.paired && simd.Pairs(c.job.kernels.k, c.pairs[i*simd.PairsLen(c.job.kernels.k, len(from)):], from)
	}
	if integer := c.job.kernels.integerK; integer != nil {
		c.reach = integer.Digits(c.digits, c.q, c.rows, l.Shape.KeyDim)
	}
}

// clear begins a chunk, whose sums are in a unit.
func (c *stream) clear(unit float32, plain bool) {
	c.left, c.plain, c.hid = c.reach, plain, false
	for r := range c.rows {
		c.m[r], c.l[r], c.rounded[r], c.unit[r] = float32(negInf), 0, 0, unit
	}
}

// states turns the running sums into states in rows of dst from row i on, dividing
// once. It reports averages that are not finite though their weights are, and rows whose
// averages sank to where sums lose digits.
func (c *stream) states(dst *states, i int) (overflowed, sank bool) {
	dim := dst.dim
	for r := range c.rows {
		l := c.l[r]
		dst.m[i+r] = float64(c.m[r]) + c.rules.shift(r, c.position(r))
		dst.l[i+r] = float64(l)
		if l == 0 {
			continue // no key: an empty state's o is never read
		}
		o := dst.o[(i+r)*dim:][:dim]
		l = c.averaged(r)
		finished := simd.Divide(o, c.o[r*dim:][:dim], l)
		if x := c.toValues(r); x != 1 {
			multiply(o, x)
			finished = allFinite(o)
		}
		overflowed = overflowed || !finished && simd.Finite(l)
		sank = sank || c.sinks() && c.sunken(o)
	}
	return overflowed, sank
}

// mend takes the averages that are not finite from the running sums, which began
// in another unit. Values that are not finite themselves change nothing there.
func (c *stream) mend(dst *states, i int) {
	dim := dst.dim
	for r := range c.rows {
		o := dst.o[(i+r)*dim:][:dim]
		for d, x := range o {
			if c.l[r] != 0 && !simd.Finite(x) {
				o[d] = c.o[r*dim+d] / c.l[r] * c.toValues(r)
			}
		}
	}
}

// raise takes the averages of rows that sank from the running sums, which began in a unit
// that lifts them. Those that are not finite there were no smaller than the values that
// cancelled in them allow.
func (c *stream) raise(dst *states, i int) {
	dim := dst.dim
	for r := range c.rows {
		o := dst.o[(i+r)*dim:][:dim]
		if c.l[r] == 0 || !c.sunken(o) {
			continue
		}
		for d := range o {
			if x := c.o[r*dim+d] / c.l[r] * c.toValues(r); simd.Finite(x) {
				o[d] = x
			}
		}
	}
}

func allFinite(o []float32) bool {
	for _, x := range o {
		if !simd.Finite(x) {
			return false
		}
	}
	return true
}

// position is where row r's query stands.
func (c *stream) position(r int) int {
	s := &c.job.launch.Plan.Config.Seqs[c.seq]
	return s.Len - s.NumQueries + c.query + r/c.group()
}
