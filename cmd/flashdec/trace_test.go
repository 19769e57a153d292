package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/internal/timeline"
	"github.com/flashdec/flashdec/plan"
)

var traceArgs = []string{"trace", "--lens=5000,300x3,0", "--q-heads=8", "--kv-heads=2", "--head-dim=32", "--threads=3", "--rounds=2", "--mb=64"}

// TestTraceAddsUp: workers did the whole step, once, within its time.
func TestTraceAddsUp(t *testing.T) {
	r := objects(t, want(t, exitDone, append(slices.Clone(traceArgs), "--json")...).stdout)[0]
	for _, field := range []string{"title", "lens", "backend", "device", "kernel", "threads", "processors", "kv_dtype", "page_size", "kv_bytes", "rounds", "decodes", "sooner"} {
		if _, ok := r[field]; !ok {
			t.Errorf("the report lacks %q", field)
		}
	}
	if r["threads"] != 3.0 || r["processors"] != 3.0 {
		t.Errorf("%v threads and %v processors, want 3", r["threads"], r["processors"])
	}
	decodes := r["decodes"].([]any)
	if len(decodes) != 2 {
		t.Fatalf("%d decodes, want one split a sequence and the plan's", len(decodes))
	}
	for i, x := range decodes {
		d := x.(map[string]any)
		var items, merges, keys, busy float64
		seconds := d["seconds"].(float64)
		workers := d["workers"].([]any)
		for _, x := range workers {
			w := x.(map[string]any)
			items += w["items"].(float64)
			merges += w["merges"].(float64)
			keys += w["keys"].(float64)
			busy += w["busy_seconds"].(float64)
			if sum := w["busy_seconds"].(float64) + w["idle_seconds"].(float64); math.Abs(sum-seconds) > 1e-9 {
				t.Errorf("a worker is busy and idle for %v s of %v", sum, seconds)
			}
		}
		if len(workers) != 3 || items != d["items"] || merges != d["merges"] || keys != 2*5900 {
			t.Errorf("%d workers with %v items, %v merges and %v keys, want 3 with %v, %v and %d", len(workers), items, merges, keys, d["items"], d["merges"], 2*5900)
		}
		if share := d["busy_share"].(float64); math.Abs(share-busy/3/seconds) > 1e-9 {
			t.Errorf("busy share %v, want %v", share, busy/3/seconds)
		}
		if lo, hi := d["seconds_min"].(float64), d["seconds_max"].(float64); lo <= 0 || seconds < lo || seconds > hi {
			t.Errorf("median %v s of %v to %v", seconds, lo, hi)
		}
		longest := d["longest_item"].(map[string]any)
		if s := longest["seconds"].(float64); s <= 0 || s > seconds {
			t.Errorf("the longest item took %v s of %v", s, seconds)
		}
		if splits := d["splits"].(float64); (i == 0) != (splits == 1) {
			t.Errorf("decode %d has %v splits", i, splits)
		}
	}
}

// TestTraceFiles writes both forms, of a file's step, and reads them back.
func TestTraceFiles(t *testing.T) {
	dir := t.TempDir()
	picture, events := filepath.Join(dir, "a.SVG"), filepath.Join(dir, "a.json")
	r := want(t, exitDone, "trace", "../../testdata/real/layer19.safetensors", "--splits=3", "--threads=2", "--rounds=1", "-o", picture, "-o", events)
	fits(t, r.stdout)
	for _, say := range []string{"1475 keys", "1 split: ", "3 splits: ", "worker 0", "worker 1", "█", "◆", "9 items", "3 merges", "wrote " + events} {
		if !strings.Contains(r.stdout, say) {
			t.Errorf("the report lacks %q:\n%s", say, r.stdout)
		}
	}
	text, err := os.ReadFile(events)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		TraceEvents []struct{ Ph, Cat string }
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, e := range file.TraceEvents {
		count[e.Cat]++
	}
	if count["item"] != 3+9 || count["merge"] != 3 {
		t.Errorf("events %v, want 12 items and 3 merges", count)
	}
	if text, err = os.ReadFile(picture); err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(bytes.NewReader(text))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the picture is not XML: %v", err)
		}
	}
	if n := bytes.Count(text, []byte("<title>sequence 0, KV head")); n < 12 {
		t.Errorf("the picture tells of %d items, want 12 at least", n)
	}
}

// TestTraceShowsOneWhereBothAreTheSame: a plan that does not cut is not compared
// with itself.
func TestTraceShowsOneWhereBothAreTheSame(t *testing.T) {
	for args, decodes := range map[string]int{"--splits=1": 1, "--compare-splits=0": 1, "--compare-splits=2": 2} {
		r := objects(t, want(t, exitDone, append(slices.Clone(traceArgs), "--json", args)...).stdout)[0]
		if n := len(r["decodes"].([]any)); n != decodes {
			t.Errorf("%s shows %d decodes, want %d", args, n, decodes)
		}
	}
}

// TestTraceOfAGPU: its processors are SMs, which may run several blocks at a time, and
// which kernels were traced is told.
func TestTraceOfAGPU(t *testing.T) {
	p, err := plan.New(plan.Config{Seqs: []plan.Seq{{Len: 64, NumQueries: 1}}, NumKVHeads: 1, GroupSize: 1, Width: 4, NumSplits: 2})
	if err != nil {
		t.Fatal(err)
	}
	trace := &backend.Trace{}
	trace.Reset(p, 4)
	trace.Slots, trace.End = 2, 10_000
	trace.Items[0], trace.Items[1] = backend.Span{Lane: 2, End: 6000}, backend.Span{Lane: 3, End: 5000}
	trace.Merges[0] = backend.Span{Lane: 2, Begin: 8000, End: 10_000}
	d := &tracedDecode{run: timeline.Run{Name: "2 splits", Plan: p, Trace: trace}, traces: []*backend.Trace{trace}}
	s := &tracedStep{title: "a step", backend: fakeGPU{}, kvDType: "f16", kvBytes: 1 << 20}
	cmd := &traceCmd{Lens: "64", Rounds: 3}
	r := cmd.report(s, []*tracedDecode{d})
	var out bytes.Buffer
	term := &terminal{out: bufio.NewWriter(&out), errs: &out}
	r.print(term)
	if err := term.out.Flush(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"a.svg", "a.json"} {
		if err := r.write(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		out.Write(text)
	}
	for _, say := range []string{"cuda on Abacus: 2 SMs, sm_00 kernels", "SMs busy 40.0% of the time", "by the traced build", "2 SMs busy 40.0%", "SM 1, slot 1", "       SM 1 "} {
		if !strings.Contains(out.String(), say) {
			t.Errorf("no form says %q:\n%s", say, &out)
		}
	}
	if r.Threads != 0 || r.Processors != 2 || len(r.Decodes[0].Workers) != 2 || r.Decodes[0].Workers[1].Busy != 8e-6 {
		t.Errorf("%d threads, %d processors, workers %+v", r.Threads, r.Processors, r.Decodes[0].Workers)
	}
}

// fakeGPU has nothing but a name.
type fakeGPU struct{ backend.Backend }

func (fakeGPU) Info() backend.Info {
	return backend.Info{Name: "cuda", Device: "Abacus", Kernel: "sm_00", Width: 4}
}

// TestTraceShowsTheMedian of all rounds, of an even number the quicker one.
func TestTraceShowsTheMedian(t *testing.T) {
	for _, c := range []struct{ ends, want []int64 }{
		{[]int64{9, 1, 5}, []int64{1, 5, 9}},
		{[]int64{4}, []int64{4, 4, 4}},
		{[]int64{7, 3, 100, 2}, []int64{2, 3, 100}},
	} {
		d := tracedDecode{}
		for _, end := range c.ends {
			d.traces = append(d.traces, &backend.Trace{End: end})
		}
		d.pick()
		if got := []int64{d.traces[0].End, d.run.Trace.End, d.traces[len(d.traces)-1].End}; !slices.Equal(got, c.want) {
			t.Errorf("%v: quickest, median and slowest are %v, want %v", c.ends, got, c.want)
		}
	}
}

// TestSmallWorkSaysWhoSleeps: a step that is not worth waking a thread for says so, and
// what would be; one that is says nothing.
func TestSmallWorkSaysWhoSleeps(t *testing.T) {
	small := "../../testdata/real/layer19.safetensors"
	for _, c := range []struct {
		args   []string
		sleeps string
	}{
		{[]string{"run", small, "--threads=2", "--no-tuned"}, "woken 1 of 2 threads takes all 12 items: their 1.7 million multiply-adds are done before another would be awake; one more is woken for each 2.1 million (flashdec tune measures it); right after a step half of that is enough: 2 are called in the times after the first"},
		{[]string{"trace", small, "--threads=1", "--no-tuned", "--rounds=1"}, ""},
		{append(slices.Clone(traceArgs), "--lens=20000", "--no-tuned"), ""},
	} {
		told := want(t, exitDone, c.args...).stdout
		fits(t, told)
		if words := strings.Join(strings.Fields(told), " "); !strings.Contains(words, c.sleeps) || c.sleeps == "" && strings.Contains(words, "awake") {
			t.Errorf("%q: want %q told:\n%s", c.args, c.sleeps, told)
		}
	}
}

// TestTraceTellsWhoWorked: of the decode that is shown, who took its items, whatever the plan alone would have woken.
func TestTraceTellsWhoWorked(t *testing.T) {
	d := &tracedDecode{
		woken: woken{threads: 4, workers: 1, items: 3, work: 1_700_000, perHelper: 2_100_000},
		run:   timeline.Run{Plan: &plan.Plan{Items: []plan.Item{{End: 1}, {End: 1}, {End: 1}}, Units: make([]plan.Unit, 3)}},
	}
	for lanes, says := range map[[3]int]string{
		{0, 0, 0}: "1 of 4 threads takes all 3 items: their 1.7 million",
		{0, 1, 0}: "2 of 4 threads take all 3 items: their 1.7 million",
		{0, 1, 2}: "",
	} {
		trace := &backend.Trace{Lanes: 4, End: 9, Merges: []backend.Span{{Lane: backend.NoLane}, {Lane: backend.NoLane}, {Lane: backend.NoLane}}}
		for _, lane := range lanes {
			trace.Items = append(trace.Items, backend.Span{Lane: lane, Begin: 1, End: 2})
		}
		d.run.Trace, d.traces = trace, []*backend.Trace{trace}
		r := d.report(1)
		worked := 0
		for _, w := range r.Workers {
			worked += min(w.Items, 1)
		}
		if !strings.HasPrefix(r.Asleep, says) || says == "" && r.Asleep != "" || r.Woken != worked {
			t.Errorf("items on %v: %d woken, %q, want %d and %q", lanes, r.Woken, r.Asleep, worked, says)
		}
	}
	small := "../../testdata/real/layer19.safetensors"
	for _, threads := range []string{"1", "2", "4"} {
		told := objects(t, want(t, exitDone, "trace", small, "--no-tuned", "--rounds=3", "--threads="+threads, "--json").stdout)
		for _, made := range told[0]["decodes"].([]any) {
			decode, worked := made.(map[string]any), 0
			for _, w := range decode["workers"].([]any) {
				if w.(map[string]any)["items"] != 0.0 {
					worked++
				}
			}
			if said, told := decode["asleep"].(string); told && !strings.HasPrefix(said, fmt.Sprint(worked, " of ", threads)) {
				t.Errorf("%s threads: %d took items, but told is %q", threads, worked, said)
			}
		}
	}
}

// TestRunAndTraceAgreeOnThreads: of one step, both tell how many it wakes when it comes first and how many are called right
// after another; trace also tells who came.
func TestRunAndTraceAgreeOnThreads(t *testing.T) {
	w := woken{threads: 4, workers: 1, items: 12, work: 1_700_000, perHelper: 2_100_000, tuned: "built in", after: 2}
	const both = "1 of 4 threads takes all 12 items: their 1.7 million multiply-adds are done before another would be awake; " +
		"one more is woken for each 2.1 million (built in); right after a step half of that is enough: 2 "
	for got, want := range map[string]string{
		w.whyAtFirst(): both + "are called in the times after the first",
		w.whyAfter(1):  both + "were called here, and 1 came in time",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := w.whyAfter(2); !strings.HasPrefix(got, "2 of 4 threads take all 12 items: ") || strings.Contains(got, "called") {
		t.Errorf("%q, want it to say that two took all items", got)
	}
	if got := w.whyAfter(4); got != "" {
		t.Errorf("%q, where all threads worked", got)
	}
}

// TestOutcomeSaysNoMoreThanIsSeen: times that are alike are not called sooner or later.
func TestOutcomeSaysNoMoreThanIsSeen(t *testing.T) {
	for sooner, how := range map[float64]string{
		7.04: "With 2 splits, the plan's choice, the decode is done 7 times sooner than with 1 split: workers are busy 85.0% of the time, not 11.0%.",
		1.04: "With 2 splits, the plan's choice, the decode takes as long as with 1 split: workers are busy 85.0% of the time, not 11.0%.",
		0.97: "With 2 splits, the plan's choice, the decode takes as long as with 1 split: workers are busy 85.0% of the time, not 11.0%.",
		0.5:  "With 2 splits, the plan's choice, the decode is done 2 times later than with 1 split: workers are busy 85.0% of the time, not 11.0%.",
	} {
		r := &traceReport{Sooner: sooner, Decodes: []decodeTrace{{Name: "1 split", Busy: 0.11}, {Name: "2 splits, the plan's choice", Busy: 0.85}}}
		if said := r.outcome(); said != how {
			t.Errorf("%v: %q, want %q", sooner, said, how)
		}
	}
}

// TestTraceExampleShowsBoth: the help's own example is cut by the plan, on any number of
// workers.
func TestTraceExampleShowsBoth(t *testing.T) {
	args := []string{"--lens", "131072,4096x6", "--q-heads", "8", "--kv-heads", "1"}
	if help := (*traceCmd)(nil).Help(); !strings.Contains(help, "flashdec trace "+strings.Join(args, " ")) {
		t.Fatalf("the help has another example:\n%s", help)
	}
	for _, threads := range []string{"2", "4", "16"} {
		r := objects(t, want(t, exitDone, append([]string{"trace", "--json", "--rounds=1", "--mb=96", "--threads", threads}, args...)...).stdout)[0]
		if n := len(r["decodes"].([]any)); n != 2 {
			t.Errorf("on %s threads %d decodes are shown, want two", threads, n)
		}
	}
}

// TestTracesFirstExampleGainsOnTwoCores: without splits the help's first example is one item, however many workers there
// are; with them every worker is woken.
func TestTracesFirstExampleGainsOnTwoCores(t *testing.T) {
	_, after, _ := strings.Cut((*traceCmd)(nil).Help(), "\n    flashdec ")
	example, _, _ := strings.Cut(after, "\n")
	for _, threads := range []string{"2", "16"} {
		args := append(strings.Fields(example), "--json", "--rounds=1", "--no-tuned", "--threads", threads)
		r := objects(t, want(t, exitDone, args...).stdout)[0]
		decodes := r["decodes"].([]any)
		unsplit, split := decodes[0].(map[string]any), decodes[len(decodes)-1].(map[string]any)
		if len(decodes) != 2 || unsplit["items"] != 1.0 || split["asleep"] != nil {
			t.Errorf("%s on %s threads: %v items without splits, %v asleep with them, want one and none", example, threads, unsplit["items"], split["asleep"])
		}
	}
}

func TestTraceRefuses(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		args  []string
		words []string
	}{
		{[]string{"trace"}, []string{"file", "--lens"}},
		{[]string{"trace", "x.npz", "--lens=5"}, []string{"file", "--lens"}},
		{[]string{"trace", "x.npz", "--q-heads=8"}, []string{"--q-heads is for a made-up step"}},
		{[]string{"trace", "x.npz", "--kv-heads=8"}, []string{"--kv-heads is for a made-up step"}},
		{[]string{"trace", "x.npz", "--head-dim=8"}, []string{"--head-dim is for a made-up step"}},
		{[]string{"trace", "x.npz", "--window=8"}, []string{"--window is for a made-up step"}},
		{[]string{"trace", "x.npz", "--mb=8"}, []string{"--mb is for a made-up step"}},
		{[]string{"trace", "--lens=0x3"}, []string{"--lens", "no sequence with a key"}},
		{[]string{"trace", "--lens=9223372036854775807"}, []string{"--lens", "--mb"}},
		{[]string{"trace", "--lens=131072x1048576"}, []string{"--lens", "--mb"}},
		{[]string{"trace", "--lens=16x1000000", "--page-size=4096"}, []string{"--lens", "--mb"}},
		{[]string{"trace", "--lens=100", "--page-size=9223372036854775807"}, []string{"--lens", "--mb"}},
		{[]string{"trace", "--lens=5", "--kv-heads=5"}, []string{"32 query heads", "5 KV heads"}},
		{[]string{"trace", "--lens=5", "--head-dim=0"}, []string{"dim", "0"}},
		{[]string{"trace", "--lens=5", "--head-dim=33", "--kv-dtype=int4"}, []string{"33"}},
		{[]string{"trace", "--lens=5", "--window=-1"}, []string{"window", "-1"}},
		{[]string{"trace", "--lens=5", "--kv-dtype=f8"}, []string{"--kv-dtype", "f8"}},
		{[]string{"trace", "--lens=5", "--splits=-1"}, []string{"--splits", "-1"}},
		{[]string{"trace", "--lens=5", "--compare-splits=-1"}, []string{"--compare-splits", "-1"}},
		{[]string{"trace", "--lens=5", "--rounds=0"}, []string{"--rounds", "0"}},
		{[]string{"trace", "--lens=5", "--mb=0"}, []string{"--mb", "0"}},
		{[]string{"trace", "--lens=5", "-o", "a.png"}, []string{"a.png", ".svg or .json"}},
		{[]string{"trace", "--lens=5", "-o", filepath.Join(dir, "none", "a.svg")}, []string{"none", "cannot be written"}},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) { refuses(t, c.words, c.args...) })
	}
}

func TestDescribeLens(t *testing.T) {
	for list, want := range map[string]string{
		"7":              "1 sequence of 7 keys",
		"131072,16x63":   "1 sequence of 131072 keys, 63 sequences of 16 keys",
		"1,2,3":          "1 sequence of 1 key, 1 sequence of 2 keys, 1 sequence of 3 keys",
		"9,2,3x2,4":      "5 sequences of 2 to 9 keys",
		"5x3,5,0":        "4 sequences of 5 keys, 1 sequence of 0 keys",
		"1,2,1,2,1,2,11": "7 sequences of 1 to 11 keys",
	} {
		lens, err := parseLens(list)
		if err != nil {
			t.Fatal(err)
		}
		if got := describeLens(lens); got != want {
			t.Errorf("%s is %q, want %q", list, got, want)
		}
	}
}
