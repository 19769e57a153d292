package cuda

import (
	"cmp"
	"slices"

	"github.com/flashdec/flashdec/plan"
)

// Sizes that kernels/params.cuh fixes: units of more than oneStep splits merge in
// bands of bandSplits first.
const (
	oneStep    = 16
	bandSplits = 8
)

func bandsOf(splits int) int {
	if splits <= oneStep {
		return 0
	}
	return tiles(splits, bandSplits)
}

// statesOf is how many partial states a unit has.
func statesOf(splits int) int {
	if splits < 2 {
		return 0
	}
	return splits + bandsOf(splits)
}

// merge is where a unit's query rows, as many as a block takes, have their partial
// states and their counters. Merges of different parts of a step use the same memory.
type merge struct {
	partial int // its first place for a partial state
	counter int
	part    int
}

// merges are those of all units of a step.
type merges struct {
	list     []merge
	first    []int // of a unit, in list
	partials int   // places for partial states
	counters int
	parts    int
}

// placeMerges gives each merge its memory: blocks take that many query rows, and a
// step of more than most partial states becomes several parts, launched one after the
// other. Its bits stay the same.
func placeMerges(p *plan.Plan, rows, most int) merges {
	m := merges{first: make([]int, len(p.Units)), parts: 1}
	used := 0
	for i, u := range p.Units {
		m.first[i] = len(m.list)
		for range tiles(u.NumQueries*p.Config.GroupSize, rows) {
			need := statesOf(u.NumSplits)
			if used > 0 && used+need > most {
				m.parts++
				used = 0
			}
			m.list = append(m.list, merge{used, m.counters, m.parts - 1})
			used += need
			m.partials = max(m.partials, used)
			m.counters += 1 + bandsOf(u.NumSplits)
		}
	}
	return m
}

// unitOf is the unit whose merge has the given counter.
func (m *merges) unitOf(counter int) int {
	at, _ := slices.BinarySearchFunc(m.list, counter, func(x merge, counter int) int { return cmp.Compare(x.counter, counter) })
	unit, found := slices.BinarySearch(m.first, at)
	if !found {
		unit--
	}
	return unit
}

// stepBytes is the memory of a step that partial states and works shall keep to; the
// former get leastPartials at least.
const (
	stepBytes     = 60 << 20
	leastPartials = 8 << 20
)

// mostPartials is how many partial states of so many floats a step may have, beside
// works of so many blocks.
func mostPartials(bytes, blocks, floats int) int {
	return max(leastPartials, bytes-blocks*workBytes) / (4 * floats)
}

// stateShape is a partial state of the kernel's blocks: its rows, and the floats of o
// in each (Shapes in kernels/finish.cuh).
func (v variant) stateShape(valueDim int) (rows, dim int) {
	if v.keyDim == 0 {
		return rowsPerSet, valueDim
	}
	return v.rows, v.valueDim
}

// countBlocks is how many blocks a plan's step has.
func countBlocks(p *plan.Plan, rows int) (n int) {
	for _, u := range p.Units {
		n += tiles(u.NumQueries*p.Config.GroupSize, rows) * max(1, u.NumSplits)
	}
	return n
}

// inParts sorts works by their merges' parts, in the order they have within one, and
// returns where each part ends.
func inParts(works []work, parts []int, count int) ([]work, []int) {
	ends := make([]int, count)
	for _, part := range parts {
		ends[part]++
	}
	next := make([]int, count)
	for i := 1; i < count; i++ {
		next[i] = ends[i-1]
		ends[i] += ends[i-1]
	}
	sorted := make([]work, len(works))
	for i, w := range works {
		sorted[next[parts[i]]] = w
		next[parts[i]]++
	}
	return sorted, ends
}
