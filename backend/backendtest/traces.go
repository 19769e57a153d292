package backendtest

import (
	"context"
	"reflect"
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
)

var traces = []test{
	{"EveryItemAndMergeOnce", (*config).traceWhole},
	{"OfDecodesAtOnce", (*config).traceAtOnce},
	{"OfSplitsThatEndTogether", (*config).traceTogether},
	{"OfACancelledDecode", (*config).traceCancelled},
	{"OnlyWhereInfoSaysSo", (*config).traceNone},
}

// tracedCases have items of one unit and of many, whole units, units without a
// key, and several queries.
func tracedCases() []Case {
	split, uncut, prompt, long := mixed(), mixed(), mixed(), small(20000)
	split.NumSplits = 7
	uncut.NumSplits = 1
	prompt.Queries = []int{3, 40, 1, 0, 5, 17}
	prompt.Options = attn.Options{Causal: true, Window: 700}
	return []Case{split, uncut, prompt, long, mixed(), small(), small(0, 0)}
}

// traceWhole: one trace serves many plans; each time it holds the whole step, on
// the lanes that the backend has, and the result is the one without a trace.
func (c *config) traceWhole(t *testing.T, b backend.Backend) {
	if !b.Info().Traces {
		return // traceNone asks what it does instead
	}
	var trace backend.Trace
	for _, cs := range tracedCases() {
		s := cs.Build()
		p, err := s.Plan(b.Info())
		if err != nil {
			t.Fatal(err)
		}
		plain := c.verifyStep(t, b, s)
		traced, err := decodeTraced(b, s, p, &trace)
		if err == nil {
			err = sameBits(plain, traced)
		}
		if err == nil {
			err = trace.Check(p)
		}
		if err != nil {
			t.Errorf("%v: %v", cs, err)
		}
		if trace.Processors() < b.Info().Width {
			t.Errorf("%v: %d processors, want the backend's %d at least", cs, trace.Processors(), b.Info().Width)
		}
	}
}

// traceAtOnce: decodes side by side, each with its trace, keep them apart.
func (c *config) traceAtOnce(t *testing.T, b backend.Backend) {
	if !b.Info().Traces {
		return
	}
	const decodes = 4
	errs := make(chan error, decodes)
	for i := range decodes {
		cs := mixed()
		cs.NumSplits = i + 1
		s := cs.Build()
		p, err := s.Plan(b.Info())
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			var trace backend.Trace
			_, err := decodeTraced(b, s, p, &trace)
			if err == nil {
				err = trace.Check(p)
			}
			errs <- err
		}()
	}
	for range decodes {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// traceTogether: where splits of a unit end within nanoseconds of each other, the
// merge begins after the last of them, whoever merges.
func (c *config) traceTogether(t *testing.T, b backend.Backend) {
	if !b.Info().Traces {
		return
	}
	cs := small(1024)
	cs.NumSplits = 64
	s := cs.Build()
	p, err := s.Plan(b.Info())
	if err != nil {
		t.Fatal(err)
	}
	var trace backend.Trace
	for range 300 {
		_, err := decodeTraced(b, s, p, &trace)
		if err == nil {
			err = trace.Check(p)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// traceCancelled: a step that did not happen has no trace that passes, and the
// next one has.
func (c *config) traceCancelled(t *testing.T, b backend.Backend) {
	if !b.Info().Traces {
		return
	}
	s := mixed().Build()
	p, err := s.Plan(b.Info())
	if err != nil {
		t.Fatal(err)
	}
	var trace backend.Trace
	l := s.Launch(p)
	states := attn.MakeStates(l.NumQueries()*s.Case.Shape.NumHeads, s.Case.Shape.ValueDim)
	l.States, l.Trace = &states, &trace
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := b.Decode(ctx, l); err == nil || trace.Check(p) == nil {
		t.Errorf("a cancelled decode returns %v and a whole trace", err)
	}
	if err := b.Decode(context.Background(), l); err != nil || trace.Check(p) != nil {
		t.Errorf("the decode after it returns %v, its trace %v", err, trace.Check(p))
	}
}

// traceNone: a backend that does not trace leaves the trace as it was.
func (c *config) traceNone(t *testing.T, b backend.Backend) {
	if b.Info().Traces {
		return
	}
	trace := backend.Trace{Lanes: 3, Items: []backend.Span{{Lane: 2, Begin: 4, End: 5}}, End: 6}
	want := backend.Trace{Lanes: 3, Items: []backend.Span{{Lane: 2, Begin: 4, End: 5}}, End: 6}
	s := mixed().Build()
	p, err := s.Plan(b.Info())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := decodeTraced(b, s, p, &trace); err != nil || !reflect.DeepEqual(trace, want) {
		t.Errorf("%v; the trace is %+v, want it left alone", err, trace)
	}
}
