package cpu

import (
	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/internal/simd"
	"github.com/flashdec/flashdec/plan"
)

// fold merges the finished chunks into the first.
func (c *stream) fold() {
	for r := range c.rows {
		c.rowChunks(r)
		c.mergeRow(&c.chunks, r)
	}
	c.finished = 1
}

// rowChunks lists the states of row r's finished chunks, in the order of the keys.
func (c *stream) rowChunks(r int) []attn.State[float32] {
	c.list = c.list[:0]
	for i := range c.finished {
		c.list = append(c.list, c.chunks.row(i*c.rows+r))
	}
	return c.list
}

// partial reports that the split is one chunk of several: its states are partial
// states at once.
func (c *stream) partial() bool { return c.only && c.item.Row != plan.Whole }

// place is where the states of the chunk under way belong.
func (c *stream) place() (dst *states, row int) {
	if c.partial() {
		return &c.job.partials, c.item.Row + (c.query-c.item.Query)*c.group()
	}
	return &c.chunks, c.finished * c.rows
}

// leave merges the chunks of a query tile, the item's from query i on, into the
// item's partial states, or into the results if the item is its whole unit.
func (c *stream) leave(i int) {
	if c.partial() {
		c.finished = 0
		return
	}
	for r := range c.rows {
		c.rowChunks(r)
		if c.item.Row == plan.Whole {
			c.emit(c.seq, c.query, c.item.Head, r)
			continue
		}
		c.mergeRow(&c.job.partials, c.item.Row+i*c.group()+r)
	}
	c.finished = 0
}

// merge merges the splits of a unit, in their order, into the results.
func (w *worker) merge(u *plan.Unit) {
	if u.Row == plan.Whole {
		return // its item has done so
	}
	rows := u.NumQueries * w.group()
	for r := range rows {
		w.list = w.list[:0]
		for split := range u.NumSplits {
			w.list = append(w.list, w.job.partials.row(u.Row+split*rows+r))
		}
		w.emit(u.Seq, u.Query, u.Head, r)
	}
}

// mergeRow merges the list into a row of states, of which the list may hold one.
func (w *worker) mergeRow(s *states, i int) {
	dst := s.row(i)
	w.mergeInto(&dst)
	s.m[i], s.l[i] = dst.M, dst.L
}

// mergeInto is [attn.Merge] of the list, averaged in vectors and all at once.
func (w *worker) mergeInto(dst *attn.State[float32]) {
	whole := 0
	for b := range w.list {
		if !w.list[b].Empty() {
			whole++
		}
	}
	if whole < 2 {
		attn.Merge(dst, w.list...)
		return
	}
	weight := w.weight[:len(w.list)]
	m, l := attn.Weigh(weight, w.list)
	n := 0
	for b := range w.list {
		if o := w.list[b].O; o != nil && !w.list[b].Empty() { // a sink has none
			weight[n], w.averaged[n] = weight[b], o
			n++
		}
	}
	simd.Average(dst.O, weight[:n], w.averaged[:n], l)
	dst.M, dst.L = m, l
}

// emit merges the list into the result of row r of some queries from query on.
// A sink is added here and nowhere else, and not to states.
func (w *worker) emit(seq, query, head, r int) {
	l := w.job.launch
	group := w.group()
	place := w.job.place(seq, query+r/group, head) + r%group
	if l.States != nil {
		dst := l.States.Row(place)
		w.mergeInto(&dst)
		l.States.Set(place, dst)
		return
	}
	if l.Options.Sinks != nil {
		w.list = append(w.list, attn.SinkState[float32](l.Options.Sinks[head*group+r%group]))
	}
	dim := l.Shape.ValueDim
	dst := attn.State[float32]{O: l.Out[place*dim:][:dim]}
	w.mergeInto(&dst)
	if l.LSE != nil {
		l.LSE[place] = float32(dst.LSE())
	}
}

// mergeEmpty writes the results of the units that see no key: they have no item.
func (j *job) mergeEmpty(w *worker) {
	for i := range j.launch.Plan.Units {
		u := &j.launch.Plan.Units[i]
		if u.NumSplits > 0 {
			continue
		}
		for r := range u.NumQueries * w.group() {
			w.list = w.list[:0]
			w.emit(u.Seq, u.Query, u.Head, r)
		}
	}
}
