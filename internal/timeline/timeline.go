// Package timeline shows traced decodes: which processor computed what, when it
// merged, and how long it waited.
//
//	timeline.go  a traced decode, and what it adds up to
//	perfetto.go  trace events, for Perfetto and chrome://tracing
//	lanes.go     lanes of block characters, for a terminal
//	picture.go   a picture, from top to bottom
//	panel.go     one decode of it: a lane a processor
//	axis.go      times, and the ticks of their axis
//	colour.go    which colour a sequence has, and the legend
//	svg.go       the file format
package timeline

import (
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/plan"
)

// Run is a traced decode.
type Run struct {
	Name  string // what it is beside others: "1 split", "the plan's splits"
	Plan  *plan.Plan
	Trace *backend.Trace // one that passes Check
}

// Lane is what one processor did.
type Lane struct {
	Items, Merges int
	Keys          int   // of its items
	Busy          int64 // nanoseconds in items and merges
}

// Summary is what a run adds up to.
type Summary struct {
	Lanes   []Lane
	Worked  int     // lanes that did anything
	Busy    float64 // share of all lanes' time, from 0 to 1, that was spent in items and merges
	Longest int     // the item that took longest; −1 if there is none
	Merging int64   // nanoseconds in merges, all lanes together
}

// Summary adds the run up.
func (r *Run) Summary() Summary {
	s := Summary{Lanes: make([]Lane, r.Trace.Lanes), Longest: -1}
	var busy int64
	for lane, work := range r.Trace.ByLane() {
		l := &s.Lanes[lane]
		for _, w := range work {
			l.Busy += w.End - w.Begin
			if w.Kind == backend.Merge {
				l.Merges++
				s.Merging += w.End - w.Begin
				continue
			}
			l.Items++
			l.Keys += r.Plan.Items[w.Index].End - r.Plan.Items[w.Index].Begin
			if s.Longest < 0 || w.End-w.Begin > r.taken(s.Longest) {
				s.Longest = w.Index
			}
		}
		busy += l.Busy
		if len(work) > 0 {
			s.Worked++
		}
	}
	if r.Trace.End > 0 && r.Trace.Lanes > 0 {
		s.Busy = float64(busy) / float64(r.Trace.End) / float64(r.Trace.Lanes)
	}
	return s
}

// taken is how long item i took, in nanoseconds.
func (r *Run) taken(i int) int64 { return r.Trace.Items[i].End - r.Trace.Items[i].Begin }

// split is which split of its unit an item is.
func (r *Run) split(it *plan.Item) int {
	if it.Row == plan.Whole {
		return 0
	}
	return (it.Row - r.Plan.Units[it.Unit].Row) / (it.NumQueries * r.Plan.Config.GroupSize)
}
