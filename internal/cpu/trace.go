package cpu

import (
	"time"

	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/plan"
)

// recorder writes a launch's trace. Nil records nothing, and costs a comparison
// an item. Every piece of work has a place of its own in the trace, so workers
// need no lock.
type recorder struct {
	trace *backend.Trace
	units []plan.Unit
	start time.Time
}

// record begins the launch's trace, on so many lanes, if one is wanted.
func (j *job) record(lanes int) {
	j.recorder = nil
	t := j.launch.Trace
	if t == nil {
		return
	}
	t.Reset(j.launch.Plan, lanes)
	j.recording = recorder{t, j.launch.Plan.Units, time.Now()}
	j.recorder = &j.recording
}

// now is the time on the trace's clock.
func (r *recorder) now() int64 {
	if r == nil {
		return 0
	}
	return time.Since(r.start).Nanoseconds()
}

// items records that a split of a task was computed from begin until now. Items that
// go side by side have equal shares of the time.
func (r *recorder) items(t *task, split, lane int, begin int64) {
	if r == nil {
		return
	}
	now := r.now()
	for h := range t.heads {
		end := begin + (now-begin)*int64(h+1)/int64(t.heads)
		r.put(&r.trace.Items[t.item(h, split)], backend.Span{Lane: lane, Begin: begin + (now-begin)*int64(h)/int64(t.heads), End: end})
	}
}

// merge records that the splits of a unit, if it has several, were merged from
// begin until now.
func (r *recorder) merge(unit, lane int, begin int64) {
	if r == nil || r.units[unit].Row == plan.Whole {
		return
	}
	r.put(&r.trace.Merges[unit], backend.Span{Lane: lane, Begin: begin, End: r.now()})
}

func (r *recorder) put(s *backend.Span, span backend.Span) {
	if s.Lane != backend.NoLane {
		panic("cpu: the same work was done twice")
	}
	*s = span
}

// end records that nobody works any more.
func (r *recorder) end() {
	if r != nil {
		r.trace.End = r.now()
	}
}
