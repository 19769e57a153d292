package plan

// levels are the loads of processors under list scheduling: each item goes to
// the one that is free first. Processors of equal load are kept as one level, so
// that a batch of few different items takes few steps at any width. It is a
// heap, the lowest load on top.
type levels struct {
	heap []level
	top  int // highest load
	sum  int // of all loads
}

type level struct{ load, count int }

func newLevels(width int) *levels {
	return &levels{heap: []level{{0, width}}}
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
			l.push(level{load, n})
			return
		}
		n -= low.count
		low.load = load
		l.sink()
	}
}

func (l *levels) push(x level) {
	l.heap = append(l.heap, x)
	for i := len(l.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if l.heap[up].load <= l.heap[i].load {
			return
		}
		l.heap[up], l.heap[i] = l.heap[i], l.heap[up]
		i = up
	}
}

// sink restores the order after the first load has grown.
func (l *levels) sink() {
	for i := 0; ; {
		low := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(l.heap); child++ {
			if l.heap[child].load < l.heap[low].load {
				low = child
			}
		}
		if low == i {
			return
		}
		l.heap[i], l.heap[low] = l.heap[low], l.heap[i]
		i = low
	}
}
