package backend_test

import (
	"strings"
	"testing"

	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/plan"
)

// traced is a plan of two units, of two splits and of one, and its trace on two
// processors: lane 0 computes and merges, lane 1 only computes.
func traced(t *testing.T) (*plan.Plan, *backend.Trace) {
	t.Helper()
	p, err := plan.New(plan.Config{
		Seqs:       []plan.Seq{{Len: 20, NumQueries: 1}, {Len: 1, NumQueries: 1}},
		NumKVHeads: 1, GroupSize: 1, Width: 2, NumSplits: 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	trace := &backend.Trace{}
	trace.Reset(p, 2)
	trace.Items[0] = backend.Span{Lane: 0, Begin: 0, End: 10}
	trace.Items[1] = backend.Span{Lane: 1, Begin: 2, End: 9}
	trace.Items[2] = backend.Span{Lane: 1, Begin: 9, End: 11}
	trace.Merges[0] = backend.Span{Lane: 0, Begin: 10, End: 12}
	trace.End = 12
	return p, trace
}

func TestTracePasses(t *testing.T) {
	p, trace := traced(t)
	if n := trace.Processors(); n != 2 {
		t.Errorf("%d processors, want 2", n)
	}
	trace.Slots = 2
	if n := trace.Processors(); n != 1 || trace.Check(p) != nil {
		t.Errorf("with two lanes a processor: %d, %v, want one", n, trace.Check(p))
	}
	if err := trace.Check(p); err != nil {
		t.Error(err)
	}
	lanes := trace.ByLane()
	if len(lanes) != 2 || len(lanes[0]) != 2 || len(lanes[1]) != 2 {
		t.Fatalf("lanes %v, want two pieces of work on each of two", lanes)
	}
	if w := lanes[0][1]; w.Kind != backend.Merge || w.Index != 0 || w.Begin != 10 {
		t.Errorf("lane 0 ends with %+v, want the merge of unit 0", w)
	}
	if w := lanes[1][1]; w.Kind != backend.Item || w.Index != 2 {
		t.Errorf("lane 1 ends with %+v, want item 2", w)
	}
}

// TestTraceCheckSees breaks a trace in each way that a recorder could.
func TestTraceCheckSees(t *testing.T) {
	for _, x := range []struct {
		says  string
		spoil func(*backend.Trace)
	}{
		{"item 1: on lane -1", func(tr *backend.Trace) { tr.Items[1].Lane = backend.NoLane }},
		{"item 0: on lane 2, want 0 to 1", func(tr *backend.Trace) { tr.Items[0].Lane = 2 }},
		{"item 1: from 2 to 1 ns", func(tr *backend.Trace) { tr.Items[1].End = 1 }},
		{"item 0: from -1 to 10 ns", func(tr *backend.Trace) { tr.Items[0].Begin = -1 }},
		{"want a time within 0 to 11", func(tr *backend.Trace) { tr.End = 11 }},
		{"merge of unit 0: on lane -1", func(tr *backend.Trace) { tr.Merges[0].Lane = backend.NoLane }},
		{"merge of unit 0 begins at 9 ns", func(tr *backend.Trace) { tr.Merges[0].Begin = 9 }},
		{"unit 1 of 1 splits: merged", func(tr *backend.Trace) { tr.Merges[1] = backend.Span{Lane: 1, Begin: 11, End: 12} }},
		{"lane 1", func(tr *backend.Trace) { tr.Items[2].Begin = 8 }},
		{"trace of 2 items and 2 units, want 3 and 2", func(tr *backend.Trace) { tr.Items = tr.Items[:2] }},
		{"further work of kind 0 on 3, want 0 to 2", func(tr *backend.Trace) {
			tr.More = []backend.Work{{Span: backend.Span{Lane: 1, Begin: 11, End: 12}, Kind: backend.Item, Index: 3}}
		}},
		{"further work of kind 2", func(tr *backend.Trace) {
			tr.More = []backend.Work{{Span: backend.Span{Lane: 1, Begin: 11, End: 12}, Kind: 2}}
		}},
		{"within 0 to 12", func(tr *backend.Trace) {
			tr.More = []backend.Work{{Span: backend.Span{Lane: 1, Begin: 11, End: 13}, Kind: backend.Merge}}
		}},
		{"lane 1", func(tr *backend.Trace) {
			tr.More = []backend.Work{{Span: backend.Span{Lane: 1, Begin: 10, End: 11}, Kind: backend.Merge}}
		}},
		{"2 lanes, 3 a processor", func(tr *backend.Trace) { tr.Slots = 3 }},
		{"trace of 3 items and 1 units", func(tr *backend.Trace) { tr.Merges = tr.Merges[:1] }},
	} {
		p, trace := traced(t)
		x.spoil(trace)
		if err := trace.Check(p); err == nil || !strings.Contains(err.Error(), x.says) {
			t.Errorf("got %v, want %q", err, x.says)
		}
	}
}

// TestTraceReset: what one decode left behind is not in the next one's trace, and
// room is used again.
func TestTraceReset(t *testing.T) {
	p, trace := traced(t)
	trace.Slots, trace.More = 2, []backend.Work{{Kind: backend.Merge}}
	if n := testing.AllocsPerRun(5, func() { trace.Reset(p, 2) }); n != 0 {
		t.Errorf("%v allocations, want none: there is room", n)
	}
	for i, s := range append(trace.Items, trace.Merges...) {
		if s != (backend.Span{Lane: backend.NoLane}) {
			t.Errorf("span %d is %+v after Reset", i, s)
		}
	}
	if trace.End != 0 || trace.Slots != 1 || len(trace.More) != 0 || trace.Check(p) == nil {
		t.Error("an empty trace passes")
	}
}
