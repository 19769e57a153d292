package cuda

import (
	"slices"

	"github.com/flashdec/flashdec/plan"
)

// layout is a plan as blocks.
type layout struct {
	works   []work
	ends    []int // of the parts that are launched one after the other, in works
	merges  merges
	halves  int // of the memory for partial states: see kAbsent in kernels/finish.cuh
	regular regularParams
}

// layOut turns a step's plan into blocks of at most rows query rows, in the order
// to start them. The blocks of one unit and tile of rows share a merge. Units that
// see no key get a block with no keys, which writes their empty rows. partials is how
// many partial states there may be.
func layOut(c StepConfig, tables []tableStart, rows, partials int) layout {
	p := c.Plan
	l := layout{merges: placeMerges(p, rows, partials/2), halves: 2}
	if l.merges.parts > 1 {
		l.merges, l.halves = placeMerges(p, rows, partials), 1
	}
	var parts []int // of works
	add := func(unit int, w work) {
		for i := range tiles(int(w.itemRows), rows) {
			m := &l.merges.list[l.merges.first[unit]+i]
			w.row = int32(i * rows)
			w.rows = min(int32(rows), w.itemRows-w.row)
			w.partial, w.counter = int64(m.partial), int32(m.counter)
			l.works, parts = append(l.works, w), append(parts, m.part)
		}
	}
	for _, it := range p.Items {
		u := &p.Units[it.Unit]
		w := unitWork(c, tables, u)
		w.begin, w.end = int32(it.Begin), int32(it.End)
		// Blocks begin to fetch at a multiple of their tile, which must lie in the page.
		page := it.Begin / c.PageSize
		if page == (it.End-1)/c.PageSize && (page == 0 || c.PageSize%maxTile == 0) {
			w.page = int32(c.Seqs[u.Seq].Pages[page])
		}
		if u.NumSplits > 1 {
			w.split = int32((it.Row - u.Row) / int(w.itemRows))
		}
		add(it.Unit, w)
	}
	for i := range p.Units {
		if u := &p.Units[i]; u.NumSplits == 0 {
			w := unitWork(c, tables, u)
			w.numSplits = 1
			add(i, w)
		}
	}
	l.works, l.ends = inParts(l.works, parts, l.merges.parts)
	return l
}

// tableStart is where a sequence's queries and page table begin.
type tableStart struct{ query, page int }

func unitWork(c StepConfig, tables []tableStart, u *plan.Unit) work {
	s := c.Plan.Config.Seqs[u.Seq]
	w := work{
		head: int32(u.Head), query: int32(tables[u.Seq].query + u.Query),
		pos:       int32(s.Len - s.NumQueries + u.Query),
		numSplits: int32(u.NumSplits), itemRows: int32(u.NumQueries * c.Plan.Config.GroupSize),
		pageTable: int32(tables[u.Seq].page), page: -1, seq: int32(u.Seq),
	}
	if m := c.Options.Mask; m != nil {
		w.maskRow = int32(u.Query)
		if m.Seqs != 1 {
			w.maskRow += int32(u.Seq * m.Queries)
		}
		if m.Newest {
			w.origin = int32(s.Len - m.Keys)
		}
	}
	return w
}

// regularise replaces the works by arithmetic where the step allows it: see
// Regular in kernels/params.cuh. What it describes is compared with every work.
func (l *layout) regularise(c StepConfig) {
	if c.Options.Mask != nil || len(l.works) == 0 || len(l.ends) > 1 {
		return
	}
	byUnit(l.works)
	w, last := l.works[0], l.works[len(l.works)-1]
	n, heads := int(w.numSplits), c.Shape.NumKVHeads
	if w.page < 0 || len(l.works)%(n*heads) != 0 {
		return
	}
	r := regularParams{
		splits: w.numSplits, heads: int32(heads), begin: w.begin, end: l.works[n-1].end, rows: w.rows,
		pos: w.pos, queries: w.itemRows / int32(c.Plan.Config.GroupSize), pageFirst: w.page,
	}
	seqs := len(l.works) / (n * heads)
	if max(heads, seqs) > maxGridYZ {
		return
	}
	if seqs > 1 {
		r.pageStep = (last.page - w.page) / int32(seqs-1)
	}
	for _, r.step = range []int32{64, 32, 16, 1} { // the planner's, coarsest first
		steps := (r.end - r.begin + r.step - 1) / r.step
		r.each, r.more = steps/r.splits, steps%r.splits
		if l.is(r) {
			l.regular = r
			return
		}
	}
}

// maxGridYZ is the most blocks of a grid along y and z.
const maxGridYZ = 65535

// is reports whether r describes every work.
func (l *layout) is(r regularParams) bool {
	border := func(i int32) int32 {
		return min(r.begin+(i*r.each+min(i, r.more))*r.step, r.end)
	}
	bands := int32(bandsOf(int(r.splits)))
	for i, w := range l.works {
		unit, split := int32(i)/r.splits, int32(i)%r.splits
		seq := unit / r.heads
		want := work{
			head: unit % r.heads, query: seq * r.queries, pos: r.pos, rows: r.rows, itemRows: r.rows,
			begin: border(split), end: border(split + 1), split: split, numSplits: r.splits, counter: unit * (1 + bands),
			pageTable: w.pageTable, page: r.pageFirst + seq*r.pageStep, seq: w.seq,
		}
		if r.splits > 1 {
			want.partial = int64(unit) * int64(r.splits+bands)
		}
		if w != want {
			return false
		}
	}
	return true
}

func tiles(n, size int) int { return (n + size - 1) / size }

// byUnit sorts blocks so that those of one unit stand together, by split.
func byUnit(works []work) {
	slices.SortStableFunc(works, func(a, b work) int {
		if a.counter != b.counter {
			return int(a.counter) - int(b.counter)
		}
		return int(a.split) - int(b.split)
	})
}
