package cpu

// Which keys the queries of a query tile see.

// outermost finds the first and the last key of [lo, hi) that each query of the
// tile sees: biases are relative to them.
func (c *stream) outermost(lo, hi int) {
	if c.rules.slopes == nil {
		return
	}
	mask := c.job.launch.Options.Mask
	for i := range c.rows / c.group() {
		from, to := c.within(i, lo, hi)
		if mask != nil {
			length := c.job.launch.Plan.Config.Seqs[c.seq].Len
			first, visible := mask.Row(c.seq, c.query+i, length, from, to)
			for to > first && visible[to-1-first] == 0 {
				to--
			}
			if first == from { // else keys before the mask's are all seen
				for from < to && visible[from-first] == 0 {
					from++
				}
			}
		}
		c.rules.first[i], c.rules.last[i] = from, to-1
	}
}

// within is the range of the keys [lo, hi) that query i sees, a mask aside.
func (w *worker) within(i, lo, hi int) (from, to int) {
	from, to = w.sees(i)
	from = min(max(from, lo), hi)
	return from, min(max(to, from), hi)
}

// seesToo reports whether query i sees just the keys [from, to) of [lo, hi), too.
func (w *worker) seesToo(i, lo, hi, from, to int) bool {
	f, t := w.within(i, lo, hi)
	return f == from && t == to
}

// seen lists the keys [from, to) of the sweep, which begins at lo, without those
// that a mask hides from query i.
func (c *stream) seen(i, lo, from, to int) sweep {
	t := c.keys.slice(from-lo, to-lo)
	mask := c.job.launch.Options.Mask
	if mask == nil {
		return t
	}
	length := c.job.launch.Plan.Config.Seqs[c.seq].Len
	first, visible := mask.Row(c.seq, c.query+i, length, from, to)
	v := &c.visible
	v.resize(0)
	v.add(&t, 0, first-from)
	for j, see := range visible {
		if see != 0 {
			v.add(&t, first-from+j, first-from+j+1)
		}
	}
	return *v
}
