package bench

import "math"

// Change is what became of a recorded row.
type Change struct {
	Before, After Row
	// Ratio is the time after by the time before, each in units of its own run's
	// ceiling: a machine that reads slower today is no change.
	Ratio float64
	// Noise is how far Ratio may lie from 1 by chance.
	Noise float64
}

// leastNoise is taken for noise even where rounds were alike: what changes
// between runs is more than what changes within one.
const leastNoise = 0.05

// Compare matches rows with recorded ones of the same suite, case, way, kernels and
// threads, in the order of the new ones. Rows without a match are left out.
func Compare(old, rows []Row) []Change {
	before := make(map[identity]Row)
	for _, r := range old {
		before[identify(r)] = r
	}
	var changes []Change
	for _, r := range rows {
		if b, ok := before[identify(r)]; ok {
			changes = append(changes, Change{b, r, r.units() / b.units(), max(leastNoise, b.spread()+r.spread())})
		}
	}
	return changes
}

// Beyond reports a change that noise does not explain, as both are printed: 1 − 0.56
// is not beyond a noise of 0.85.
func (c Change) Beyond() bool { return math.Abs(c.Ratio-1) > c.Noise }

// identity is what two rows share when they measured the same thing.
type identity struct {
	suite, name, impl, backend, kernel string
	threads                            int
	bytes                              int64
}

func identify(r Row) identity {
	return identity{r.Suite, r.Case, r.Impl, r.Backend, r.Kernel, r.Threads, r.Bytes()}
}

// units is the time in units of what its bound took.
func (r *Row) units() float64 {
	if floor := r.Floor(); floor > 0 {
		return r.Seconds / floor
	}
	return r.Seconds
}

// spread is how far rounds lay apart, those of the bare read counted in: the median
// from the best, which noise only ever takes from.
func (r *Row) spread() float64 { return r.Seconds/r.Min - 1 + r.Spread }
