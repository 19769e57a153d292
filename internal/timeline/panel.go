package timeline

import (
	"fmt"

	"github.com/flashdec/flashdec/backend"
)

// pitch is how far apart processors are, of which there are n: high enough to be read
// where they are few, and a pixel at least where they are many.
func pitch(n int) float64 { return min(max(352/float64(max(n, 1)), 1), 26) }

// panel draws a run under its name, from y on, and returns where its lanes end.
func (p *Picture) panel(s *svg, r *Run, a *axis, name string, y float64) float64 {
	s.text("name", margin, y, "start", name)
	s.text("", pageWidth-margin, y, "end", p.figures(r))
	y += 14
	high := pitch(r.Trace.Processors())
	p.laneNames(s, r.Trace.Processors(), y)
	colour := colours(r)
	top := y
	for _, lanes := range r.processors() {
		each := (high - min(high/5, 3)) / float64(len(lanes))
		for i, work := range lanes {
			l := lane{run: r, axis: a, colour: colour, top: y + float64(i)*each, high: each}
			l.draw(s, work)
		}
		y += high
	}
	end := a.x(r.Trace.End)
	s.line("end", end, top-4, end, y+4)
	if free := a.left + a.width - end; free > 260 {
		s.text("name", end+12, (top+y)/2, "start", "done after "+Duration(r.Trace.End))
		s.text("faint", end+12, (top+y)/2+lineHigh, "start", fmt.Sprintf("%.1f times sooner", float64(a.span)/float64(max(r.Trace.End, 1))))
	}
	return y
}

// laneNames writes the processors' names beside them, as many as do not overlap.
func (p *Picture) laneNames(s *svg, n int, y float64) {
	high := pitch(n)
	every := 1
	for float64(every)*high < 12 {
		every *= 2
	}
	for i := 0; i < n; i += every {
		s.text("faint", plotLeft-10, y+(float64(i)+0.5)*high+3, "end", fmt.Sprintf("%s %d", p.Lane, i))
	}
}

// lane is one being drawn.
type lane struct {
	run       *Run
	axis      *axis
	colour    []int // of sequences
	top, high float64
	strip     strip // items that wait to be drawn as one
}

// Items narrower than narrow, with less than a hair between them, are drawn as
// one, of whatever colours within such a width: a plan may have a million.
const (
	narrow = 1.0
	hair   = 0.4
)

// strip is items of one colour side by side.
type strip struct {
	class      string
	begin, end float64
	items      int
	told       string // of the first
}

// draw draws the lane's waiting, its items, and its merges on top.
func (l *lane) draw(s *svg, work []backend.Work) {
	s.rect("idle", l.axis.left, l.top, l.axis.x(l.run.Trace.End)-l.axis.left, l.high, "")
	for _, w := range work {
		if w.Kind == backend.Item {
			l.item(s, w)
		}
	}
	l.flush(s)
	for _, w := range work {
		if w.Kind == backend.Merge {
			l.merge(s, w)
		}
	}
}

// item adds an item to the strip if it fits there, and begins another if not.
func (l *lane) item(s *svg, w backend.Work) {
	it := &l.run.Plan.Items[w.Index]
	class := fmt.Sprintf("c%d", l.colour[it.Seq])
	if it.Head%2 == 1 {
		class += " odd"
	}
	begin, end := l.axis.x(w.Begin), l.axis.x(w.End)
	if t := &l.strip; t.items > 0 && (t.class == class || end-t.begin < narrow) && end-begin < narrow && begin-t.end < hair && (t.items > 1 || t.end-t.begin < narrow) {
		t.end = end
		t.items++
		return
	}
	l.flush(s)
	l.strip = strip{class, begin, end, 1, l.tellItem(w)}
}

// flush draws the strip. An item that is wide enough leaves a gap before the
// next, and none is too narrow to be seen.
func (l *lane) flush(s *svg) {
	t := &l.strip
	if t.items == 0 {
		return
	}
	width := max(t.end-t.begin, hair)
	if width > 4 {
		width -= 0.8
	}
	told := t.told
	if t.items > 1 {
		told = fmt.Sprintf("%s, the first: %s", count(t.items, "item"), told)
	}
	s.rect(t.class, t.begin, l.top, width, l.high, told)
	t.items = 0
}

// merge draws a merge, which takes next to no time, so that it is seen: wider
// than it is and, where there is room, higher than its lane.
func (l *lane) merge(s *svg, w backend.Work) {
	u := &l.run.Plan.Units[w.Index]
	begin := l.axis.x(w.Begin)
	width := max(l.axis.x(w.End)-begin, 2.5)
	beyond := 0.0
	if l.high > 6 {
		beyond = 1.5
	}
	s.rect("merge", begin, l.top-beyond, width, l.high+2*beyond,
		fmt.Sprintf("merge of %s: sequence %d, KV head %d; %s", count(u.NumSplits, "split"), u.Seq, u.Head, Duration(w.End-w.Begin)))
}

// tellItem is an item's figures.
func (l *lane) tellItem(w backend.Work) string {
	it := &l.run.Plan.Items[w.Index]
	return fmt.Sprintf("sequence %d, KV head %d, split %d: keys %d to %d; %s",
		it.Seq, it.Head, l.run.split(it), it.Begin, it.End, Duration(w.End-w.Begin))
}
