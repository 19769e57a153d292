package cuda

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/plan"
)

// runBlocks is what the stamps of a launch may look like: blocks start in their order,
// two at a time on a multiprocessor, each once all that it waits for is there.
func runBlocks(p *plan.Plan, works []work, band, multiprocessors int) []blockStamps {
	stamps := make([]blockStamps, len(works))
	free := make([]uint64, 2*multiprocessors)
	left := make(map[int32]int)    // splits of a counter that are still to arrive
	banded := make(map[[2]int]int) // splits of a band
	const base = 1 << 40
	for i := range free {
		free[i] = base
	}
	for i, w := range works {
		seat := slices.Index(free, slices.Min(free))
		now := free[seat]
		mark := func(m int, takes uint64) {
			now += takes
			stamps[i][m] = stamp{time: now, cycles: uint32(now), multiprocessor: uint32(seat / 2)}
		}
		mark(markStarted, 5)
		mark(markWalked, uint64(w.end-w.begin))
		if w.numSplits > 1 {
			mark(markStored, 10)
			at := [2]int{int(w.counter), int(w.split) / band}
			if _, ok := left[w.counter]; !ok {
				left[w.counter] = int(w.numSplits)
			}
			left[w.counter]--
			banded[at]++
			all := min(band, int(w.numSplits)-at[1]*band)
			if int(w.numSplits) > band && banded[at] == all {
				now = max(now, slices.Max(free))
				mark(markBandArrived, 1)
				mark(markBandStored, 20)
			}
			if left[w.counter] == 0 {
				now = max(now, slices.Max(free))
				mark(markArrived, 1)
				mark(markGathered, 5)
			}
		}
		if !stamps[i].passed(markStored) || stamps[i].passed(markArrived) {
			mark(markDone, 3)
		}
		free[seat] = now
	}
	return stamps
}

// TestTraceIsWhole: whatever a step looks like, its blocks' stamps make a trace of
// its plan in which every block is counted once.
func TestTraceIsWhole(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	regular, banded, shared, several := 0, 0, 0, 0
	for range 80 {
		problem := randomProblem(rng)
		if rng.IntN(3) == 0 { // equal sequences in a page each
			problem.opt, problem.pageSize, problem.splits = attn.Options{}, 1<<12, []int{0, 1, 40}[rng.IntN(3)]
			for i := range problem.lens {
				problem.lens[i], problem.queries[i] = 1<<11, 1
			}
		}
		l := problem.launch(t, rng, 16)
		sc := StepConfig{Shape: l.Shape, Options: l.Options, Plan: l.Plan, Seqs: l.KV.Seqs, PageSize: l.KV.PageSize}
		_, tables := pageTables(sc)
		lay := layOut(sc, tables, rowsPerSet, math.MaxInt)
		lay.regularise(sc)
		const band, processors = 7, 5
		blocks, stamps := lay.blocks(l.Plan, rowsPerSet), runBlocks(l.Plan, lay.works, band, processors)
		var trace backend.Trace
		if err := record(&trace, l.Plan, blocks, stamps, processors); err != nil {
			t.Fatalf("%v: %v", problem, err)
		}
		if err := trace.Check(l.Plan); err != nil {
			t.Fatalf("%v: %v", problem, err)
		}
		if trace.Processors() != processors || len(blocks) > 0 && (trace.Slots < 1 || trace.Slots > 2) {
			t.Fatalf("%v: %d lanes, %d a processor, want %d processors", problem, trace.Lanes, trace.Slots, processors)
		}
		items := 0
		for _, b := range blocks {
			if b.item >= 0 {
				items++
			}
		}
		for _, w := range trace.More {
			if w.Kind == backend.Item {
				items--
				shared++
			} else {
				banded++
			}
		}
		if items != len(l.Plan.Items) {
			t.Fatalf("%v: %d blocks are of items, want %d", problem, items, len(l.Plan.Items))
		}
		// Items of a block each lie where their block ran.
		for i, b := range blocks {
			if b.item < 0 || b.tile != 0 {
				continue
			}
			w, it, span := lay.works[i], l.Plan.Items[b.item], trace.Items[b.item]
			if int(w.begin) != it.Begin || int(w.end) != it.End || int(w.head) != it.Head || int(w.seq) != it.Seq {
				t.Fatalf("%v: block %d computes %+v, but is traced as item %+v", problem, i, w, it)
			}
			if took := span.End - span.Begin; took < int64(it.End-it.Begin) || span.Lane/trace.Slots != int(stamps[i][markStarted].multiprocessor) {
				t.Fatalf("%v: item %d was traced as %+v, its block's stamps are %v", problem, b.item, span, stamps[i])
			}
		}
		if lay.regular.splits > 0 {
			regular++
		}
		if trace.Slots == 2 {
			several++
		}
	}
	if min(regular, banded, shared, several) < 10 {
		t.Errorf("%d regular steps, %d merges of bands, %d further blocks of items, %d steps of two blocks at a time, want 10 of each", regular, banded, shared, several)
	}
}

// TestTraceRefusesMissingMarks: a block that left none is an error, not a gap.
func TestTraceRefusesMissingMarks(t *testing.T) {
	p, err := plan.New(plan.Config{Seqs: []plan.Seq{{Len: 64, NumQueries: 1}}, NumKVHeads: 1, GroupSize: 1, Width: 4, NumSplits: 1})
	if err != nil {
		t.Fatal(err)
	}
	whole := blockStamps{markStarted: {time: 5, multiprocessor: 1}, markDone: {time: 9, multiprocessor: 1}}
	for name, spoil := range map[string]func(*blockStamps){
		"no start":                 func(b *blockStamps) { b[markStarted].time = 0 },
		"no result":                func(b *blockStamps) { b[markDone].time = 0 },
		"a multiprocessor too far": func(b *blockStamps) { b[markStarted].multiprocessor = 2 },
	} {
		b := whole
		spoil(&b)
		var trace backend.Trace
		if err := record(&trace, p, []tracedBlock{{}}, []blockStamps{b}, 2); err == nil {
			t.Errorf("%s: no error", name)
		}
		if err := record(&trace, p, []tracedBlock{{}}, []blockStamps{whole}, 2); err != nil || trace.Check(p) != nil {
			t.Errorf("whole: %v, %v", err, trace.Check(p))
		}
	}
}
