package cpu

import (
	"slices"
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/internal/simd"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/plan"
	"pgregory.net/rapid"
)

// drawPlan draws a plan of a few sequences.
func drawPlan(t *rapid.T) *plan.Plan {
	seq := rapid.Custom(func(t *rapid.T) plan.Seq {
		return plan.Seq{Len: rapid.IntRange(0, 20000).Draw(t, "len"), NumQueries: rapid.OneOf(rapid.Just(1), rapid.IntRange(0, 40)).Draw(t, "queries")}
	})
	p, err := plan.New(plan.Config{
		Seqs:       rapid.SliceOfN(seq, 0, 6).Draw(t, "seqs"),
		NumKVHeads: rapid.IntRange(1, 17).Draw(t, "heads"), GroupSize: rapid.IntRange(1, 9).Draw(t, "group"),
		Width: rapid.IntRange(1, 40).Draw(t, "width"), QueryTile: queryTile, HeadTile: sideBySide,
		NumSplits: rapid.OneOf(rapid.Just(0), rapid.IntRange(1, 50), rapid.IntRange(50, 500)).Draw(t, "splits"),
		Invariant: rapid.Bool().Draw(t, "invariant"), Causal: rapid.Bool().Draw(t, "causal"),
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// drawPlane draws where keys of some heads lie: in pages of slots, or of heads.
func drawPlane(t *rapid.T, heads, pageSize int) kv.Plane {
	p := kv.Plane{Type: kv.DType(rapid.SampledFrom([]simd.Elem{simd.F32, simd.F16, simd.I8, simd.I4}).Draw(t, "type"))}
	p.Dim = 2 * rapid.IntRange(1, 100).Draw(t, "dim")
	row := p.Dim + 2*rapid.IntRange(0, 3).Draw(t, "pad")
	p.SlotStride, p.HeadStride = row, row*pageSize
	if rapid.Bool().Draw(t, "slots together") {
		p.SlotStride, p.HeadStride = row*heads, row
	}
	p.PageStride = row*pageSize*heads + 2*rapid.IntRange(0, 9).Draw(t, "page pad")
	return p
}

// TestTasksHoldEachItemOnce: whatever the plan, the pages and the workers, tasks are
// the plan's items, each once; heads of a task stand at the same keys, and its splits
// follow one another.
func TestTasksHoldEachItemOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlan(t)
		heads, pageSize := p.Config.NumKVHeads, rapid.SampledFrom([]int{1, 16, 64, 100, 30000}).Draw(t, "page size")
		plane := drawPlane(t, heads, pageSize)
		j := &job{launch: &backend.Launch{
			Plan: p, KV: kv.View{K: plane, V: plane, NumKVHeads: heads, PageSize: pageSize},
			Shape: attn.Shape{NumHeads: heads * p.Config.GroupSize, NumKVHeads: heads, KeyDim: plane.Dim, ValueDim: plane.Dim},
		}}
		workers := rapid.OneOf(rapid.IntRange(1, 3), rapid.IntRange(1, 40)).Draw(t, "workers")
		j.handOut(workers)
		seen := make([]int, len(p.Items))
		for _, task := range j.tasks {
			for split := range task.splits {
				for head := range task.heads {
					seen[task.item(head, split)]++
					it, first := p.Items[task.item(head, split)], p.Items[task.item(0, split)]
					if first.Head += head; it.Head != first.Head || it.Seq != first.Seq || it.Query != first.Query || it.Begin != first.Begin || it.End != first.End {
						t.Fatalf("%+v: head %d of split %d is %+v", task, head, split, it)
					}
					if split > 0 && p.Items[task.item(head, split-1)].End != it.Begin {
						t.Fatalf("%+v: split %d of head %d does not follow the one before", task, split, head)
					}
				}
			}
		}
		for i, n := range seen {
			if n != 1 {
				t.Fatalf("item %d of %d is in %d tasks, want 1", i, len(seen), n)
			}
		}
	})
}

// TestTasksKeepSequencesApart: where one sequence's keys end, another's window may
// begin.
func TestTasksKeepSequencesApart(t *testing.T) {
	p, err := plan.New(plan.Config{
		Seqs:       []plan.Seq{{Len: 100, NumQueries: 1}, {Len: 200, NumQueries: 1}},
		NumKVHeads: 1, GroupSize: 1, Width: 1, Window: 100, Causal: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	j := &job{launch: &backend.Launch{Plan: p, KV: kv.View{NumKVHeads: 1, PageSize: 1000}}}
	if j.handOut(1); len(j.tasks) != 2 {
		t.Errorf("tasks %+v for items %+v, want one each", j.tasks, p.Items)
	}
}

// TestTasksAreEnoughForAll: no worker of many goes without as long as there are
// items, and one worker alone takes heads and splits as they come.
func TestTasksAreEnoughForAll(t *testing.T) {
	const heads, pageSize = 8, 16
	for _, splits := range []int{1, 4, 64} {
		p, err := plan.New(plan.Config{Seqs: []plan.Seq{{Len: 65536, NumQueries: 1}}, NumKVHeads: heads, GroupSize: 4, Width: 1, NumSplits: splits})
		if err != nil {
			t.Fatal(err)
		}
		plane := kv.Plane{Type: kv.F16, Dim: 128, SlotStride: 128, HeadStride: 128 * pageSize, PageStride: 128 * pageSize * heads}
		j := &job{launch: &backend.Launch{
			Plan: p, KV: kv.View{K: plane, V: plane, NumKVHeads: heads, PageSize: pageSize},
			Shape: attn.Shape{NumHeads: 32, NumKVHeads: heads, KeyDim: 128, ValueDim: 128},
		}}
		for _, workers := range []int{1, 2, 3, 4, 8} {
			j.handOut(workers)
			if len(j.tasks) < workers {
				t.Errorf("%d splits, %d workers: %d tasks", splits, workers, len(j.tasks))
			}
			if workers == 1 && (len(j.tasks) != 1 || j.tasks[0].heads != heads || j.tasks[0].splits != splits) {
				t.Errorf("%d splits, one worker: tasks %+v, want one of all heads", splits, j.tasks)
			}
		}
	}
}

// TestRowsOfAnAreaInTheOrderOfMemory: the rows of all heads, in pieces of any
// length, are each row once, and rise within a page.
func TestRowsOfAnAreaInTheOrderOfMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		heads, size := rapid.IntRange(1, 9).Draw(t, "heads"), rapid.IntRange(1, 70).Draw(t, "page size")
		plane := drawPlane(t, heads, size)
		table := rapid.Permutation([]kv.PageID{0, 1, 2, 3, 4, 5, 6, 7}).Draw(t, "pages")
		hi := rapid.IntRange(1, min(8*size, 200)).Draw(t, "hi")
		a := area{heads: rapid.IntRange(1, heads).Draw(t, "of them"), lo: rapid.IntRange(0, hi-1).Draw(t, "lo"), hi: hi}
		a.head = rapid.IntRange(0, heads-a.heads).Draw(t, "first head")
		where := planeOf(&plane)
		w := &worker{job: &job{launch: &backend.Launch{KV: kv.View{PageSize: size, Seqs: []kv.Table{{Pages: table, Len: hi}}}}}}
		var got []int
		piece := make([]int, rapid.IntRange(1, simd.TileKeys).Draw(t, "piece"))
		for rows := w.rowsOf(piece, &where, &a, 0); len(rows) > 0; rows = w.rowsOf(piece, &where, &a, len(got)) {
			got = append(got, rows...)
		}
		var want []int
		for lo := a.lo; lo < a.hi; {
			var page []int
			for end := min(a.hi, lo/size*size+size); lo < end; lo++ {
				for head := a.head; head < a.head+a.heads; head++ {
					page = append(page, plane.Offset(table[lo/size], head, lo%size))
				}
			}
			slices.Sort(page)
			want = append(want, page...)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("rows %v, want %v", got, want)
		}
	})
}

// TestScalesToFetchAreThoseOfTheKeys: whatever the pages, the lines that are fetched
// for a head hold the scales of all keys of the next tile, and lie among the scales.
func TestScalesToFetchAreThoseOfTheKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const heads, pagesInAll = 3, 8
		size := rapid.IntRange(1, 70).Draw(t, "page size")
		s := kv.Scales{Kind: kv.TokenScale, SlotStride: rapid.SampledFrom([]int{1, heads, 17}).Draw(t, "stride")}
		s.HeadStride, s.PageStride = s.SlotStride*size, s.SlotStride*size*heads
		if s.SlotStride == heads {
			s.HeadStride, s.PageStride = 1, heads*size
		}
		s.Values = make([]float32, s.PageStride*pagesInAll)
		table := rapid.Permutation([]kv.PageID{0, 1, 2, 3, 4, 5, 6, 7}).Draw(t, "pages")
		lo := rapid.IntRange(0, pagesInAll*size-1).Draw(t, "lo")
		w := &worker{job: &job{launch: &backend.Launch{KV: kv.View{PageSize: size, Seqs: []kv.Table{{Pages: table}}}}}}
		w.next = area{heads: heads, lo: lo, hi: min(lo+simd.TileKeys, pagesInAll*size)}
		lines := w.listScales(make([]int, 0, simd.TileKeys), &s)
		for head := range heads {
			for _, at := range lines {
				if at += head * s.HeadStride; at < 0 || at >= len(s.Values) {
					t.Fatalf("scale %d of %d is fetched", at, len(s.Values))
				}
			}
			for key := w.next.lo; key < w.next.hi; key++ {
				at := s.Offset(table[key/size], head, key%size)
				if !slices.ContainsFunc(lines, func(line int) bool {
					line += head * s.HeadStride
					return line <= at && at < line+lineScales
				}) {
					t.Fatalf("head %d: scale %d of key %d is not among the lines at %v", head, at, key, lines)
				}
			}
		}
		if len(lines) > simd.TileKeys {
			t.Fatalf("%d lines for %d keys", len(lines), w.next.hi-w.next.lo)
		}
	})
}

// TestLeadingRowsAreThoseOfTheNextKeys: what is fetched during a tile lies lead rows
// ahead, in the next tile of the chunk or in what follows it: each row once, in runs of
// rows that lie one behind the other.
func TestLeadingRowsAreThoseOfTheNextKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		heads, size := rapid.IntRange(1, 4).Draw(t, "heads"), rapid.IntRange(1, 70).Draw(t, "page size")
		plane := drawPlane(t, heads, size)
		table := rapid.Permutation([]kv.PageID{0, 1, 2, 3, 4, 5, 6, 7}).Draw(t, "pages")
		keys := rapid.IntRange(1, 8*size).Draw(t, "keys")
		lo := rapid.IntRange(0, keys-1).Draw(t, "lo")
		mid := min(lo+rapid.IntRange(1, simd.TileKeys).Draw(t, "tile"), keys)
		head, lead := rapid.IntRange(0, heads-1).Draw(t, "head"), rapid.IntRange(1, simd.TileKeys-1).Draw(t, "lead")
		j := &job{launch: &backend.Launch{KV: kv.View{PageSize: size, Seqs: []kv.Table{{Pages: table, Len: keys}}}}}
		j.k, j.v = planeOf(&plane), planeOf(&plane)
		w := &worker{job: j, next: area{head: head, heads: 1, lo: mid, hi: min(mid+simd.TileKeys, keys)}}
		c := &stream{worker: w, item: &plan.Item{Head: head}}
		var want []int // keys
		for key := min(lo+lead, mid); key < min(mid+lead, w.next.hi); key++ {
			want = append(want, key)
		}
		got := c.leading(make([]int, simd.TileKeys), &j.k, lo, mid, lead)
		if got.bytes > max(runBytes, j.k.row) {
			t.Fatalf("runs of %d bytes, want at most %d", got.bytes, runBytes)
		}
		rows := got.bytes / j.k.row
		if j.k.pitch.slot == j.k.row && rows < min(runBytes/j.k.row, size) {
			t.Fatalf("runs of %d rows of %d bytes, in pages of %d", rows, j.k.row, size)
		}
		for i, run := range got.runs {
			if len(want) == 0 {
				t.Fatalf("%d runs, of which %d are too many", len(got.runs), len(got.runs)-i)
			}
			first := want[0]
			if at := plane.Offset(table[first/size], head, first%size) - plane.Offset(0, head, 0); run != at {
				t.Fatalf("run %d begins at %d, want %d, key %d", i, run, at, first)
			}
			for len(want) > 0 && want[0] < first+rows && want[0]/size == first/size && (want[0] < mid) == (first < mid) {
				want = want[1:]
			}
		}
		if len(want) > 0 {
			t.Fatalf("keys %v are not fetched", want)
		}
	})
}

// TestLeadingRunsAreFew: rows of 128 bytes that touch are listed in runs of 1 KB, and no run begins in one page and
// ends in another unless a page's last one does.
func TestLeadingRunsAreFew(t *testing.T) {
	const heads, row = 3, 128
	for _, size := range []int{4, 100, 128} {
		plane := kv.Plane{Type: kv.F16, Dim: row / 2, SlotStride: row / 2, HeadStride: row / 2 * size, PageStride: row / 2 * size * heads}
		table := []kv.PageID{4, 1, 3, 0, 2}
		j := &job{launch: &backend.Launch{KV: kv.View{PageSize: size, Seqs: []kv.Table{{Pages: table, Len: 5 * size}}}}, k: planeOf(&plane)}
		w := &worker{job: j, next: area{head: 1, heads: 1, lo: 3 * size, hi: 5 * size}}
		c := &stream{worker: w, item: &plan.Item{Head: 1}}
		const lead = 80
		got := c.leading(make([]int, 4*size+lead), &j.k, 0, 3*size, lead)
		rows := min(runBytes/row, size)
		var want []int
		for _, keys := range [][2]int{{min(lead, 3*size), 3 * size}, {3 * size, min(3*size+lead, 5*size)}} {
			for key := keys[0]; key < keys[1]; key = min(key+rows, (key/size+1)*size) {
				want = append(want, (int(table[key/size])*heads*size+key%size)*row)
			}
		}
		if got.bytes != rows*row || !slices.Equal(got.runs, want) {
			t.Errorf("pages of %d: runs of %d bytes at %v, want of %d at %v", size, got.bytes, got.runs, rows*row, want)
		}
	}
}
