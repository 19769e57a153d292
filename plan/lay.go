package plan

import (
	"cmp"
	"slices"
)

// run is the adjacent splits [first, first+count) of a cut that have equally
// many keys, in every KV head.
type run struct {
	work         int // of one split
	cut          int
	first, count int
}

// appendRuns appends the runs of a cut: at most the splits of ⌈t/n⌉ steps,
// those of ⌊t/n⌋, and the last split when it ends within a step.
func appendRuns(runs []run, i int, c *cut) []run {
	for first := 0; first < c.n; {
		keys := c.border(first+1) - c.border(first)
		count := c.alike(first, keys)
		runs = append(runs, run{keys * c.keyWork(), i, first, count})
		first += count
	}
	return runs
}

// alike is how many splits from first on have that many keys.
func (c *cut) alike(first, keys int) int {
	last := c.n - 1
	if first == last {
		return 1
	}
	wide := ceil(c.keys(), c.step) % c.n
	if first < wide {
		return wide - first
	}
	if c.end-c.border(last) == keys {
		last++
	}
	return last - first
}

// lay makes the plan of cuts whose splits are chosen. Items go by work, heaviest
// first, since list scheduling then ends most evenly; equal ones by unit and
// split, so that the order is the same in every run.
func lay(cfg Config, cuts []cut) *Plan {
	p := &Plan{Config: cfg, Units: make([]Unit, 0, len(cuts)*cfg.NumKVHeads)}
	runs := make([]run, 0, len(cuts)+len(cuts)/4)
	items := 0
	for i := range cuts {
		p.addUnits(&cuts[i])
		runs = appendRuns(runs, i, &cuts[i])
		cuts[i].items = items
		items += cuts[i].n * cfg.NumKVHeads
	}
	sortRuns(runs)
	p.Items, p.bySplit = make([]Item, 0, items), make([]int32, items)
	for _, r := range runs {
		p.addItems(r, &cuts[r.cut])
	}
	return p
}

func sortRuns(runs []run) {
	slices.SortFunc(runs, func(a, b run) int {
		if a.work != b.work {
			return cmp.Compare(b.work, a.work)
		}
		if a.cut != b.cut {
			return cmp.Compare(a.cut, b.cut)
		}
		return cmp.Compare(a.first, b.first)
	})
}

func (p *Plan) addUnits(c *cut) {
	u := Unit{
		Seq: c.seq, Query: c.query, NumQueries: c.numQueries,
		Begin: c.begin, End: c.end, NumSplits: c.n, Row: Whole,
	}
	for u.Head = range p.Config.NumKVHeads {
		if c.n > 1 {
			u.Row = p.Rows
			p.Rows += c.n * c.rows
		}
		p.Units = append(p.Units, u)
	}
}

// addItems adds the items of a run. The units of cut i begin at
// i·NumKVHeads, one a KV head.
func (p *Plan) addItems(r run, c *cut) {
	begin := c.border(r.first)
	keys := c.border(r.first+1) - begin
	it := Item{
		Unit: r.cut * p.Config.NumKVHeads, Seq: c.seq,
		Query: c.query, NumQueries: c.numQueries, Begin: begin, Row: Whole,
	}
	for it.Head = range p.Config.NumKVHeads {
		if c.n > 1 {
			it.Row = p.Units[it.Unit].Row + r.first*c.rows
		}
		p.addSplits(it, p.bySplit[c.items+it.Head*c.n+r.first:][:r.count], keys, c.rows)
		it.Unit++
	}
}

// addSplits adds an item and those that follow it in its unit, equally long, and
// writes their indexes.
func (p *Plan) addSplits(it Item, indexes []int32, keys, rows int) {
	for i := range indexes {
		it.End = it.Begin + keys
		indexes[i] = int32(len(p.Items))
		p.Items = append(p.Items, it)
		it.Begin = it.End
		it.Row += rows
	}
}
