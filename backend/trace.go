package backend

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/flashdec/flashdec/plan"
)

// NoLane is the lane of a span in which nothing was done.
const NoLane = -1

// Span is one piece of work: on which processor, from when to when.
type Span struct {
	Lane       int   // where: a goroutine's seat, a place on an SM; or NoLane
	Begin, End int64 // nanoseconds since the decode began
}

// Trace is what the processors did in one decode. Each piece of work has a place
// of its own, so processors record without regard to each other.
type Trace struct {
	Lanes int // of all processors that there are, those without work counted
	// Slots is how many lanes a processor has side by side, for that many pieces of
	// work at a time: lane i is of processor i / Slots. 0 is 1.
	Slots int
	// Items are the times of the plan's items, Merges those of the merges of its
	// units: [len(Plan.Items)], [len(Plan.Units)]. The merge of a unit with
	// fewer than two splits has NoLane.
	Items, Merges []Span
	// More is further work of items and units of which several processors computed a
	// part each: other query rows, or the merge of some of the splits.
	More []Work
	End  int64 // when the decode was done, on the same clock
}

// Processors is how many processors the lanes are of.
func (t *Trace) Processors() int { return t.Lanes / max(t.Slots, 1) }

// Reset makes room for the trace of a plan on that many processors of a lane each, and
// forgets what was recorded.
func (t *Trace) Reset(p *plan.Plan, lanes int) {
	if p == nil {
		p = new(plan.Plan)
	}
	t.Lanes, t.Slots, t.More, t.End = lanes, 1, t.More[:0], 0
	t.Items = slices.Grow(t.Items[:0], len(p.Items))[:len(p.Items)]
	t.Merges = slices.Grow(t.Merges[:0], len(p.Units))[:len(p.Units)]
	for _, spans := range [][]Span{t.Items, t.Merges} {
		for i := range spans {
			spans[i] = Span{Lane: NoLane}
		}
	}
}

// Kind says what was done in a span.
type Kind uint8

const (
	Item  Kind = iota // an item was computed
	Merge             // the states of a unit's splits were merged
)

// Work is a span with what was done in it.
type Work struct {
	Span
	Kind  Kind
	Index int // into Plan.Items or Plan.Units
}

// ByLane is the work of each processor, in the order of time: [Lanes][work]. Work
// on none of Lanes is left out.
func (t *Trace) ByLane() [][]Work {
	lanes := make([][]Work, max(0, min(t.Lanes, plan.MaxWidth)))
	for i, s := range t.Items {
		if s.Lane >= 0 && s.Lane < len(lanes) {
			lanes[s.Lane] = append(lanes[s.Lane], Work{s, Item, i})
		}
	}
	for i, s := range t.Merges {
		if s.Lane >= 0 && s.Lane < len(lanes) {
			lanes[s.Lane] = append(lanes[s.Lane], Work{s, Merge, i})
		}
	}
	for _, w := range t.More {
		if w.Lane >= 0 && w.Lane < len(lanes) {
			lanes[w.Lane] = append(lanes[w.Lane], w)
		}
	}
	for _, work := range lanes {
		slices.SortStableFunc(work, func(a, b Work) int {
			return cmp.Or(cmp.Compare(a.Begin, b.Begin), cmp.Compare(a.End, b.End))
		})
	}
	return lanes
}

// Check verifies that the trace is one of the plan: every item and every merge
// on one of the lanes, ended no earlier than begun and no later than the decode,
// no two on a lane at once, and no merge before the last of its splits.
func (t *Trace) Check(p *plan.Plan) error {
	if t == nil {
		return fmt.Errorf("the trace is nil")
	}
	if err := p.Check(); err != nil {
		return err
	}
	if t.Lanes < 0 || t.Lanes > plan.MaxWidth {
		return fmt.Errorf("trace of %d lanes, want 0 to %d", t.Lanes, plan.MaxWidth)
	}
	if t.Slots < 0 || t.Lanes%max(t.Slots, 1) != 0 {
		return fmt.Errorf("trace of %d lanes, %d a processor, want a multiple of that", t.Lanes, t.Slots)
	}
	if len(t.Items) != len(p.Items) || len(t.Merges) != len(p.Units) {
		return fmt.Errorf("trace of %d items and %d units, want %d and %d", len(t.Items), len(t.Merges), len(p.Items), len(p.Units))
	}
	ready := make([]int64, len(p.Units)) // when the last split of each ended
	for i, s := range t.Items {
		if err := t.within(s); err != nil {
			return fmt.Errorf("item %d: %w", i, err)
		}
		unit := p.Items[i].Unit
		ready[unit] = max(ready[unit], s.End)
	}
	for i, s := range t.Merges {
		if p.Units[i].NumSplits < 2 {
			if s.Lane != NoLane {
				return fmt.Errorf("unit %d of %d splits: merged in %+v, want no merge", i, p.Units[i].NumSplits, s)
			}
			continue
		}
		if err := t.within(s); err != nil {
			return fmt.Errorf("merge of unit %d: %w", i, err)
		}
		if s.Begin < ready[i] {
			return fmt.Errorf("merge of unit %d begins at %d ns, want no earlier than its last split's end at %d", i, s.Begin, ready[i])
		}
	}
	for _, w := range t.More {
		if n := map[Kind]int{Item: len(p.Items), Merge: len(p.Units)}[w.Kind]; w.Index < 0 || w.Index >= n {
			return fmt.Errorf("further work of kind %d on %d, want 0 to %d", w.Kind, w.Index, n-1)
		}
		if err := t.within(w.Span); err != nil {
			return fmt.Errorf("further work %+v: %w", w, err)
		}
	}
	return t.checkLanes()
}

// within checks one span by itself.
func (t *Trace) within(s Span) error {
	if s.Lane < 0 || s.Lane >= t.Lanes {
		return fmt.Errorf("on lane %d, want 0 to %d", s.Lane, t.Lanes-1)
	}
	if s.Begin < 0 || s.Begin > s.End || s.End > t.End {
		return fmt.Errorf("from %d to %d ns, want a time within 0 to %d", s.Begin, s.End, t.End)
	}
	return nil
}

func (t *Trace) checkLanes() error {
	for lane, work := range t.ByLane() {
		for i := 1; i < len(work); i++ {
			if work[i].Begin < work[i-1].End {
				return fmt.Errorf("lane %d: %+v begins before %+v ends", lane, work[i], work[i-1])
			}
		}
	}
	return nil
}
