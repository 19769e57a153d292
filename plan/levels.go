package plan

// levels are the loads of processors under list scheduling: each item goes to
// the processor that is free first. Processors of equal load are one level, so
// that a batch of few different items takes few steps at any width.
type levels struct {
	heap heap[level] // lowest load in front
	top  int         // highest load
	sum  int         // of all loads
}

type level struct{ load, count int }

func (a level) before(b level) bool { return a.load < b.load }

// reset makes all processors free.
func (l *levels) reset(width int) {
	*l = levels{heap: append(l.heap[:0], level{0, width})}
}

// place adds n items of one size.
func (l *levels) place(size, n int) {
	l.sum += size * n
	for n > 0 {
		low := &l.heap[0]
		load := low.load + size
		l.top = max(l.top, load)
		if n < low.count {
			low.count -= n
			l.heap.push(level{load, n})
			return
		}
		n -= low.count
		low.load = load
		l.heap.sink()
	}
}
