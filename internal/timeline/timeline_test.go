package timeline_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/internal/timeline"
	"github.com/flashdec/flashdec/plan"
)

// simulated is a run of a plan on lanes that each do the next item when they are
// free, a key a nanosecond; whoever ends a unit merges it at once, in 100 ns.
func simulated(t testing.TB, name string, lanes int, cfg plan.Config) timeline.Run {
	t.Helper()
	p, err := plan.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	trace := &backend.Trace{}
	trace.Reset(p, lanes)
	free := make([]int64, lanes)
	left := make([]int, len(p.Units))
	for i := range p.Units {
		left[i] = p.Units[i].NumSplits
	}
	for i, it := range p.Items {
		lane := 0
		for l := range free {
			if free[l] < free[lane] {
				lane = l
			}
		}
		end := free[lane] + int64(it.End-it.Begin)
		trace.Items[i] = backend.Span{Lane: lane, Begin: free[lane], End: end}
		if left[it.Unit]--; left[it.Unit] == 0 && it.Row != plan.Whole {
			begin := slices.Max(free) // no earlier than any split's end
			begin = max(begin, end)
			trace.Merges[it.Unit] = backend.Span{Lane: lane, Begin: begin, End: begin + 100}
			end = begin + 100
		}
		free[lane] = end
	}
	trace.End = slices.Max(free)
	if err := trace.Check(p); err != nil {
		t.Fatal(err)
	}
	return timeline.Run{Name: name, Plan: p, Trace: trace}
}

func seqs(lens ...int) []plan.Seq {
	list := make([]plan.Seq, len(lens))
	for i, n := range lens {
		list[i] = plan.Seq{Len: n, NumQueries: 1}
	}
	return list
}

// pair is one step, uncut and cut.
func pair(t testing.TB) (uncut, cut timeline.Run) {
	t.Helper()
	cfg := plan.Config{Seqs: seqs(20000, 500, 0, 700), NumKVHeads: 2, GroupSize: 4, Width: 8}
	cut = simulated(t, "the plan's choice", 8, cfg)
	cfg.NumSplits = 1
	return simulated(t, "1 split", 8, cfg), cut
}

func keysOf(p *plan.Plan) (sum int) {
	for _, it := range p.Items {
		sum += it.End - it.Begin
	}
	return sum
}

// TestSummaryAddsUp: lanes hold the plan's items, merges and keys, and the busy
// share is the one that a clock by each worker would give.
func TestSummaryAddsUp(t *testing.T) {
	uncut, cut := pair(t)
	for _, r := range []timeline.Run{uncut, cut} {
		sum := r.Summary()
		items, merges, keys, busy := 0, 0, 0, int64(0)
		for _, l := range sum.Processors {
			items, merges, keys, busy = items+l.Items, merges+l.Merges, keys+l.Keys, busy+l.Busy
		}
		split := 0
		for _, u := range r.Plan.Units {
			if u.NumSplits > 1 {
				split++
			}
		}
		if items != len(r.Plan.Items) || merges != split || keys != keysOf(r.Plan) {
			t.Errorf("%s: %d items, %d merges, %d keys; want %d, %d, %d", r.Name, items, merges, keys, len(r.Plan.Items), split, keysOf(r.Plan))
		}
		if want := int64(keys + 100*merges); busy != want || sum.Merging != int64(100*merges) {
			t.Errorf("%s: busy for %d ns, %d of them merging, want %d and %d", r.Name, busy, sum.Merging, want, 100*merges)
		}
		if want := float64(busy) / 8 / float64(r.Trace.End); math.Abs(sum.Busy-want) > 1e-12 {
			t.Errorf("%s: busy share %v, want %v", r.Name, sum.Busy, want)
		}
		longest := 0
		for _, it := range r.Plan.Items {
			longest = max(longest, it.End-it.Begin)
		}
		if it := r.Plan.Items[sum.Longest.Index]; it.End-it.Begin != longest {
			t.Errorf("%s: the longest item has %d keys, want %d", r.Name, it.End-it.Begin, longest)
		}
	}
	if a, b := uncut.Summary(), cut.Summary(); a.Worked != 6 || b.Worked != 8 || b.Busy < 2*a.Busy {
		t.Errorf("%d lanes work without splits, busy %.2f; %d with, busy %.2f; want 6, 8, and far more", a.Worked, a.Busy, b.Worked, b.Busy)
	}
}

// TestNothingToDo: a step without a key has no work to show, and every form
// shows that.
func TestNothingToDo(t *testing.T) {
	r := simulated(t, "nothing", 3, plan.Config{Seqs: seqs(0), NumKVHeads: 2, GroupSize: 1, Width: 3})
	if sum := r.Summary(); sum.Busy != 0 || sum.Longest != nil || sum.Worked != 0 {
		t.Errorf("summary %+v, want nothing", sum)
	}
	if text := r.Text("worker", 20, 0); strings.Count(text, "\n") != 3 || strings.ContainsAny(text, "▁█◆") {
		t.Errorf("lanes\n%s\nwant three that wait", text)
	}
	var b bytes.Buffer
	if err := timeline.WriteEvents(&b, []timeline.Run{r}, "worker", nil); err != nil || !json.Valid(b.Bytes()) {
		t.Errorf("%v: events %s", err, &b)
	}
	b.Reset()
	if err := (&timeline.Picture{Lane: "worker", Runs: []timeline.Run{r}}).WriteSVG(&b); err != nil {
		t.Error(err)
	}
	parsePicture(t, b.Bytes())
}

// TestEventsHoldEveryItem reads the trace events as Perfetto does.
func TestEventsHoldEveryItem(t *testing.T) {
	uncut, cut := pair(t)
	runs := []timeline.Run{uncut, cut}
	var b bytes.Buffer
	if err := timeline.WriteEvents(&b, runs, "SM", map[string]string{"step": `a "step"`}); err != nil {
		t.Fatal(err)
	}
	var file struct {
		OtherData   map[string]string
		TraceEvents []struct {
			Ph, Name, Cat string
			PID, TID      int
			TS, Dur       float64
			Args          map[string]any
		}
	}
	if err := json.Unmarshal(b.Bytes(), &file); err != nil {
		t.Fatal(err)
	}
	if file.OtherData["step"] != `a "step"` {
		t.Errorf("otherData %v, want the step", file.OtherData)
	}
	type counted struct{ items, merges, keys, threads int }
	got := map[int]*counted{1: {}, 2: {}}
	names := map[string]int{}
	for _, e := range file.TraceEvents {
		c := got[e.PID]
		if c == nil {
			t.Fatalf("event %+v of an unknown process", e)
		}
		if e.Ph == "M" {
			if e.Name == "thread_name" {
				c.threads++
				names[e.Args["name"].(string)]++
			}
			continue
		}
		if end := float64(runs[e.PID-1].Trace.End) / 1e3; e.Ph != "X" || e.TS < 0 || e.TS+e.Dur > end+1e-6 || e.TID < 0 || e.TID > 7 {
			t.Errorf("event %+v, want one within 0 to %v µs on threads 0 to 7", e, end)
		}
		if e.Cat == "merge" {
			c.merges++
			continue
		}
		c.items++
		c.keys += int(e.Args["keys"].(float64))
	}
	for i, r := range runs {
		want := counted{items: len(r.Plan.Items), keys: keysOf(r.Plan), threads: 8}
		for _, u := range r.Plan.Units {
			if u.NumSplits > 1 {
				want.merges++
			}
		}
		if *got[i+1] != want {
			t.Errorf("%s: %+v, want %+v", r.Name, *got[i+1], want)
		}
	}
	if names["SM 0"] != 2 || names["SM 7"] != 2 {
		t.Errorf("thread names %v, want SM 0 to SM 7 in both processes", names)
	}
}

// TestLanesOfText pins the lanes of a small run.
func TestLanesOfText(t *testing.T) {
	r := simulated(t, "", 2, plan.Config{Seqs: seqs(1000, 100), NumKVHeads: 1, GroupSize: 1, Width: 2, NumSplits: 2})
	const want = "" +
		"   worker 0 ███████████◆█         100%\n" + // 500, 50 and 50 keys, and a merge
		"   worker 1 █████████◆█▁·        85.7%\n" // 500 keys, and a merge
	if got := r.Text("worker", 20, 1083); got != want {
		t.Errorf("lanes\n%s\nwant\n%s", got, want)
	}
}

// TestManyLanesOfText: more lanes than lines are means of neighbours, and all
// lines are equally long.
func TestManyLanesOfText(t *testing.T) {
	r := simulated(t, "", 132, plan.Config{Seqs: seqs(131072), NumKVHeads: 1, GroupSize: 1, Width: 132, NumSplits: 66})
	text := r.Text("worker", 40, r.Trace.End)
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) > 16 {
		t.Errorf("%d lines, want 16 at most", len(lines))
	}
	for _, line := range lines {
		if n := len([]rune(line)); n != 12+40+6 {
			t.Errorf("line of %d letters, want %d: %q", n, 12+40+6, line)
		}
	}
	if !strings.Contains(lines[0], "0–8") || !strings.Contains(lines[len(lines)-1], "126–131") {
		t.Errorf("lines do not name lanes 0 to 131:\n%s", text)
	}
}

func TestDuration(t *testing.T) {
	for ns, want := range map[int64]string{0: "0.00 ns", 7: "7.00 ns", 999: "999 ns", 1234: "1.23 µs", 45678: "45.7 µs", 3_000_000: "3.00 ms", 12_345_678_901: "12.3 s"} {
		if got := timeline.Duration(ns); got != want {
			t.Errorf("%d ns is %q, want %q", ns, got, want)
		}
	}
}

func TestPercent(t *testing.T) {
	for x, want := range map[float64]string{0: "0.0%", 0.004: "0.4%", 0.123: "12.3%", 0.9774: "97.7%", 0.9996: "100%", 1: "100%"} {
		if got := timeline.Percent(x); got != want {
			t.Errorf("%v is %q, want %q", x, got, want)
		}
	}
}

// sharing is a run in which one of two processors has two lanes' work at a time: 6 ns
// and 8 ns that overlap by 4, and after 2 ns of waiting a merge; a part of item 0 and a
// merge of some splits are told as further work.
func sharing(t testing.TB) timeline.Run {
	t.Helper()
	p, err := plan.New(plan.Config{Seqs: seqs(64, 32), NumKVHeads: 1, GroupSize: 1, Width: 2, NumSplits: 2})
	if err != nil {
		t.Fatal(err)
	}
	trace := &backend.Trace{}
	trace.Reset(p, 4)
	trace.Slots, trace.End = 2, 20
	trace.Items[0] = backend.Span{Lane: 0, Begin: 0, End: 6}
	trace.Items[1] = backend.Span{Lane: 1, Begin: 2, End: 10}
	trace.Items[2] = backend.Span{Lane: 2, Begin: 0, End: 1}
	trace.Items[3] = backend.Span{Lane: 2, Begin: 1, End: 2}
	trace.Merges[0] = backend.Span{Lane: 0, Begin: 12, End: 13}
	trace.Merges[1] = backend.Span{Lane: 3, Begin: 2, End: 3}
	trace.More = []backend.Work{
		{Span: backend.Span{Lane: 3, Begin: 4, End: 7}, Kind: backend.Item, Index: 0},
		{Span: backend.Span{Lane: 2, Begin: 5, End: 6}, Kind: backend.Item, Index: 2},
		{Span: backend.Span{Lane: 0, Begin: 19, End: 20}, Kind: backend.Merge, Index: 0},
	}
	if err := trace.Check(p); err != nil {
		t.Fatal(err)
	}
	return timeline.Run{Name: "side by side", Plan: p, Trace: trace}
}

// TestSideBySide: a processor with work on both of its lanes is busy once, and every
// form tells of processors, with all the work that they did.
func TestSideBySide(t *testing.T) {
	r := sharing(t)
	sum := r.Summary()
	want := []timeline.Processor{{Items: 2, Merges: 2, Keys: 64, Busy: 10 + 1 + 1}, {Items: 4, Merges: 1, Keys: 3*16 + 32, Busy: 2 + 1 + 3}}
	if !slices.Equal(sum.Processors, want) || sum.Worked != 2 || sum.Merging != 3 || sum.Busy != 18.0/40 {
		t.Errorf("%+v, want %+v, busy %v", sum, want, 18.0/40)
	}
	if w := sum.Longest; w == nil || w.Index != 1 || w.Kind != backend.Item {
		t.Errorf("the longest is %+v, want item 1", w)
	}
	text := r.Text("SM", 20, 20)
	if want := "       SM 0 ██████████··◆······◆ 60.0%\n       SM 1 ██◆·███············· 30.0%\n"; text != want {
		t.Errorf("in the terminal\n%swant\n%s", text, want)
	}
	var b bytes.Buffer
	if err := timeline.WriteEvents(&b, []timeline.Run{r}, "SM", nil); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"SM 0, slot 0", "SM 0, slot 1", "SM 1, slot 0", "SM 1, slot 1"} {
		if n := strings.Count(b.String(), `{"name":"`+name+`"}`); n != 1 {
			t.Errorf("%d threads are named %q, want 1:\n%s", n, name, &b)
		}
	}
	p := draw(t, &timeline.Picture{Lane: "SM", Runs: []timeline.Run{r}})
	if items, merges := p.tells("sequence "), p.tells("merge of "); items != 6 || merges != 3 {
		t.Errorf("%d rectangles of items and %d of merges, want 6 and 3", items, merges)
	}
	all := strings.Join(p.texts, "\n")
	if !strings.Contains(all, "2 SMs busy 45.0%") || !strings.Contains(all, "SM 1") || strings.Contains(all, "SM 2") {
		t.Errorf("the picture's texts are not of two SMs:\n%s", all)
	}
	// Many lanes are as high as their processors.
	many, single := *r.Trace, *r.Trace
	many.Lanes, single.Lanes, single.Slots = 400, 200, 1
	high := func(trace *backend.Trace) float64 {
		return draw(t, &timeline.Picture{Lane: "SM", Runs: []timeline.Run{{Plan: r.Plan, Trace: trace}}}).height
	}
	if high(&many) != high(&single) {
		t.Errorf("200 SMs of two lanes are %v high, those of one %v", high(&many), high(&single))
	}
	// The lanes of one processor lie within its own height, one below the other.
	top := map[string]float64{}
	for _, r := range p.rects {
		for _, told := range []string{"sequence 0, KV head 0, split 0: keys 0 to 32; 6", "sequence 0, KV head 0, split 1", "sequence 1, KV head 0, split 0"} {
			if strings.HasPrefix(r.told, told) {
				top[told[:30]] = r.y
				if r.height < 1 {
					t.Errorf("%q is %v high", r.told, r.height)
				}
			}
		}
	}
	if y := slices.Sorted(maps.Values(top)); len(y) != 3 || y[1]-y[0] > y[2]-y[1]+10 {
		t.Errorf("lanes at %v, want two of one SM near each other, and the other SM's below", top)
	}
}
