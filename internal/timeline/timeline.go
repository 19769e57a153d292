// Package timeline shows traced decodes: which processor computed what, when it
// merged, and how long it waited.
//
//	timeline.go  a traced decode, and what it adds up to
//	perfetto.go  trace events, for Perfetto and chrome://tracing
//	lanes.go     lanes of block characters, for a terminal
//	picture.go   a picture, from top to bottom
//	panel.go     one decode of it: a lane a processor, or several side by side
//	axis.go      times, and the ticks of their axis
//	colour.go    which colour a sequence has, and the legend
//	svg.go       the file format
package timeline

import (
	"cmp"
	"slices"

	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/plan"
)

// Run is a traced decode.
type Run struct {
	Name  string // what it is beside others: "1 split", "the plan's splits"
	Plan  *plan.Plan
	Trace *backend.Trace // one that passes Check
}

// Processor is what one processor did.
type Processor struct {
	Items, Merges int
	Keys          int   // of its items
	Busy          int64 // nanoseconds in which it was at work on at least one piece
}

// Summary is what a run adds up to.
type Summary struct {
	Processors []Processor
	Worked     int           // processors that did anything
	Busy       float64       // share of all processors' time, from 0 to 1, that was spent in items and merges
	Longest    *backend.Work // the item that took longest; nil if there is none
	Merging    int64         // nanoseconds in merges, all together
}

// Summary adds the run up.
func (r *Run) Summary() Summary {
	var s Summary
	var busy int64
	for _, lanes := range r.processors() {
		var p Processor
		for _, w := range slices.Concat(lanes...) {
			if w.Kind == backend.Merge {
				p.Merges++
				s.Merging += w.End - w.Begin
				continue
			}
			p.Items++
			p.Keys += r.Plan.Items[w.Index].End - r.Plan.Items[w.Index].Begin
			if s.Longest == nil || w.End-w.Begin > s.Longest.End-s.Longest.Begin {
				s.Longest = &w
			}
		}
		for _, span := range atWork(lanes) {
			p.Busy += span.End - span.Begin
		}
		busy += p.Busy
		if p.Items+p.Merges > 0 {
			s.Worked++
		}
		s.Processors = append(s.Processors, p)
	}
	if n := len(s.Processors); n > 0 && r.Trace.End > 0 {
		s.Busy = float64(busy) / float64(r.Trace.End) / float64(n)
	}
	return s
}

// processors is the work of each processor's lanes, in the order of time: [processors][lanes][work].
func (r *Run) processors() [][][]backend.Work {
	var list [][][]backend.Work
	for lanes := range slices.Chunk(r.Trace.ByLane(), max(r.Trace.Slots, 1)) {
		list = append(list, lanes)
	}
	return list
}

// atWork is when a processor was at work on at least one of its lanes: spans that
// do not overlap, in their order.
func atWork(lanes [][]backend.Work) []backend.Span {
	all := slices.Concat(lanes...)
	slices.SortFunc(all, func(a, b backend.Work) int { return cmp.Compare(a.Begin, b.Begin) })
	var spans []backend.Span
	for _, w := range all {
		if n := len(spans); n > 0 && w.Begin <= spans[n-1].End {
			spans[n-1].End = max(spans[n-1].End, w.End)
			continue
		}
		spans = append(spans, w.Span)
	}
	return spans
}

// split is which split of its unit an item is.
func (r *Run) split(it *plan.Item) int {
	if it.Row == plan.Whole {
		return 0
	}
	return (it.Row - r.Plan.Units[it.Unit].Row) / (it.NumQueries * r.Plan.Config.GroupSize)
}
