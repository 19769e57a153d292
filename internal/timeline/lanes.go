package timeline

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/flashdec/flashdec/backend"
)

// maxRows is how many lines a run's processors take at most; where there are more,
// a line is the mean of several.
const maxRows = 16

// Text is the run as processors' lanes of so many columns, which stand for span nanoseconds:
// a block's height is how busy its time was, a dot is waiting, ◆ a merge. Each
// line ends with its busy share of the run's own time. It is of letters' widths
// 12 + columns + 6.
func (r *Run) Text(lane string, columns int, span int64) string {
	all := r.processors()
	per := (len(all) + maxRows - 1) / max(maxRows, 1)
	var b strings.Builder
	for first := 0; first < len(all); first += per {
		last := min(first+per, len(all))
		name := fmt.Sprintf("%s %d", lane, first)
		if last-first > 1 {
			name = fmt.Sprintf("%d–%d", first, last-1)
		}
		cells := newCells(columns, span)
		for _, lanes := range all[first:last] {
			cells.add(lanes)
		}
		fmt.Fprintf(&b, "%11s %s %5s\n", name, cells.draw(last-first, r.Trace.End), Percent(cells.busy/float64(max(r.Trace.End, 1))/float64(last-first)))
	}
	return b.String()
}

// cells are the columns of a line.
type cells struct {
	each  float64   // nanoseconds a column
	work  []float64 // nanoseconds of it that were busy
	merge []bool
	busy  float64 // of all columns
}

func newCells(columns int, span int64) *cells {
	return &cells{
		each: float64(max(span, 1)) / float64(columns),
		work: make([]float64, columns), merge: make([]bool, columns),
	}
}

// column is the one that a time lies in.
func (c *cells) column(ns int64) int {
	return min(int(float64(ns)/c.each), len(c.work)-1)
}

// add spreads a processor's work over the columns it touches.
func (c *cells) add(lanes [][]backend.Work) {
	for _, w := range atWork(lanes) {
		c.busy += float64(w.End - w.Begin)
		for i := c.column(w.Begin); i <= c.column(w.End); i++ {
			from, to := float64(i)*c.each, float64(i+1)*c.each
			c.work[i] += max(0, min(float64(w.End), to)-max(float64(w.Begin), from))
		}
	}
	for _, w := range slices.Concat(lanes...) {
		if w.Kind == backend.Merge {
			c.merge[c.column(w.Begin)] = true
		}
	}
}

// draw is the line of so many lanes of a run that ended at end: nothing is
// drawn beyond it.
func (c *cells) draw(lanes int, end int64) string {
	levels := []rune("·▁▂▃▄▅▆▇█")
	last := c.column(max(end-1, 0))
	var b strings.Builder
	for i, busy := range c.work {
		switch {
		case c.merge[i]:
			b.WriteRune('◆')
		case i > last:
			b.WriteByte(' ')
		default:
			// Any work at all shows.
			share := busy / c.each / float64(lanes)
			b.WriteRune(levels[min(int(math.Ceil(share*float64(len(levels)-1)-1e-9)), len(levels)-1)])
		}
	}
	return b.String()
}
