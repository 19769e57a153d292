package cuda

import (
	"math/rand/v2"
	"testing"
)

// TestMergesHaveTheirOwnMemory: the blocks of a launch that do not merge with each
// other share no partial state and no counter, whatever the memory; every block finds
// its unit again.
func TestMergesHaveTheirOwnMemory(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 15))
	several, banded := 0, 0
	for range 200 {
		problem := randomProblem(rng)
		if rng.IntN(2) == 0 {
			problem.splits = oneStep + 1 + rng.IntN(100)
		}
		p := problem.launch(t, rng, 16).Plan
		rows, most := rowsPerSet*(1+rng.IntN(2)), 1+rng.IntN(300)
		m := placeMerges(p, rows, most)
		type memory struct{ part, place int }
		states, counters := map[memory]bool{}, map[int]bool{}
		for i, u := range p.Units {
			for tile := range tiles(u.NumQueries*p.Config.GroupSize, rows) {
				x := m.list[m.first[i]+tile]
				bands := 0
				if u.NumSplits > oneStep {
					bands = (u.NumSplits + bandSplits - 1) / bandSplits
					banded++
				}
				for c := range 1 + bands {
					if x.counter+c >= m.counters || counters[x.counter+c] {
						t.Fatalf("%v: unit %d, tile %d: counter %d of %d is another merge's, or none", problem, i, tile, x.counter+c, m.counters)
					}
					counters[x.counter+c] = true
				}
				for s := range u.NumSplits + bands {
					at := memory{x.part, x.partial + s}
					if u.NumSplits > 1 && (at.place >= m.partials || states[at]) {
						t.Fatalf("%v: unit %d, tile %d: place %d of %d is another merge's, or none", problem, i, tile, at.place, m.partials)
					}
					states[at] = u.NumSplits > 1
				}
				if unit := m.unitOf(x.counter); unit != i {
					t.Fatalf("%v: the counter of unit %d, tile %d is said to be unit %d's", problem, i, tile, unit)
				}
			}
		}
		if limit := max(most, statesOf(p.MaxSplits())); m.partials > limit {
			t.Fatalf("%v: %d partial states at once, want at most %d", problem, m.partials, limit)
		}
		if m.parts > 1 {
			several++
		}
	}
	if min(several, banded) < 20 {
		t.Errorf("%d steps of several parts, %d merges with bands, want 20 of each", several, banded)
	}
}
