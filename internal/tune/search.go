package tune

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/internal/bench"
	"github.com/flashdec/flashdec/internal/gpubench"
	"github.com/flashdec/flashdec/kv"
)

const (
	// leastRounds is how many rounds are measured however long they take, and
	// mostRounds how many are enough.
	leastRounds = 5
	mostRounds  = 41
	// confirming is the part of the time in which the best candidate is measured
	// beside the built-in one alone. The best of many is also the luckiest: what it
	// saves is taken from here.
	confirming = 4
	// worthIt is the least part of the time that constants must save: below, it is
	// noise.
	worthIt = 0.02
)

// timing is one way to compute a step, and how long it took.
type timing struct {
	take   func(context.Context) (float64, error) // seconds of a step
	sample []float64
}

// bed is where a class is measured.
type bed interface {
	info() backend.Info
	// candidates are the constants to try, those built in first.
	candidates() []constants
	cases(Class) []*bench.Case
	// timings are how each candidate computes a step. Candidates that lead to the same
	// work on the same backend share a timing.
	timings(ctx context.Context, c *bench.Case, list []constants) ([]*timing, error)
	close() error
}

// search is the measuring of a class.
type search struct {
	bed   bed
	list  []constants
	steps [][]*timing // steps[i][j] is how candidate j computes step i
}

// Measure finds a class's constants on the CPU with so many threads, in about
// that much time; tell is told how much of it is over, from 0 to 1. The entry has
// no day yet.
func Measure(ctx context.Context, class Class, threads int, budget time.Duration, tell func(float64)) (e Entry, err error) {
	b, err := newCPUBed(class, threads)
	if err != nil {
		return e, err
	}
	return measure(ctx, class, b, budget, tell)
}

// MeasureGPU does it on a GPU.
func MeasureGPU(ctx context.Context, class Class, gpu *gpubench.GPU, budget time.Duration, tell func(float64)) (Entry, error) {
	return measure(ctx, class, &gpuBed{gpu: gpu}, budget, tell)
}

// measure measures on a bed, which it closes.
func measure(ctx context.Context, class Class, b bed, budget time.Duration, tell func(float64)) (e Entry, err error) {
	defer func() { err = errors.Join(err, b.close()) }()
	s := &search{bed: b, list: b.candidates()}
	for _, c := range b.cases(class) {
		step, err := b.timings(ctx, c, s.list)
		if err != nil {
			return e, err
		}
		s.steps = append(s.steps, step)
	}
	first := budget - budget/confirming
	if err := s.measure(ctx, s.timings(), first, func(x float64) { tell(x * float64(first) / float64(budget)) }); err != nil {
		return e, err
	}
	best := s.best()
	e.Noise = s.noise(cmp.Or(best, s.next()))
	if best > 0 {
		s.forget()
		pair := slices.Concat(s.of(0), s.of(best))
		if err := s.measure(ctx, pair, budget-first, func(x float64) { tell((float64(first) + x*float64(budget-first)) / float64(budget)) }); err != nil {
			return e, err
		}
		e.Saved, e.Noise = 1-s.ratio(best), s.noise(best)
		if e.Saved < worthIt {
			best, e.Saved = 0, 0
		}
	}
	tell(1)
	types := [2]kv.DType{class.DType, class.DType}
	e.Version = version
	e.Key = KeyOf(b.info(), class.Dim, class.Dim, class.Group, types)
	e.MinKeysPerSplit, e.HelperWork = s.list[best].minKeys, s.list[best].helperWork
	return e, nil
}

// timings are all, each once.
func (s *search) timings() []*timing {
	var all []*timing
	for _, step := range s.steps {
		for _, t := range step {
			if !slices.Contains(all, t) {
				all = append(all, t)
			}
		}
	}
	return all
}

// of are the timings of one candidate.
func (s *search) of(candidate int) []*timing {
	var all []*timing
	for _, step := range s.steps {
		all = append(all, step[candidate])
	}
	return all
}

// forget drops what was measured.
func (s *search) forget() {
	for _, t := range s.timings() {
		t.sample = nil
	}
}

// measure samples all timings in rounds, in another order each, so that no one
// always runs after the same other, and whatever else the machine does meets all.
func (s *search) measure(ctx context.Context, all []*timing, budget time.Duration, tell func(float64)) error {
	start := time.Now()
	rng := rand.New(rand.NewPCG(3, 4))
	order := slices.Clone(all)
	for round := range mostRounds {
		rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, t := range order {
			seconds, err := t.take(ctx)
			if err != nil {
				return err
			}
			t.sample = append(t.sample, seconds)
			tell(min(float64(time.Since(start))/float64(budget), 1))
		}
		if round+1 >= leastRounds && time.Since(start) > budget {
			return nil
		}
	}
	return nil
}

// ratio is a candidate's time by the built-in constants' time, in the geometric
// mean of all steps.
func (s *search) ratio(candidate int) float64 {
	sum := 0.0
	for _, step := range s.steps {
		sum += math.Log(bench.Median(step[candidate].sample) / bench.Median(step[0].sample))
	}
	return math.Exp(sum / float64(len(s.steps)))
}

// noise is how far a candidate's ratio may be off: two standard errors of the median over rounds, a round's being the
// geometric mean of all steps. Rounds that differ by chance alone are normal about their median; the spread is taken from
// their median distance to it, which a few that were disturbed do not move.
func (s *search) noise(candidate int) float64 {
	rounds := s.rounds(candidate)
	if len(rounds) == 0 {
		return 0
	}
	middle := bench.Median(rounds)
	for i, x := range rounds {
		rounds[i] = math.Abs(x - middle)
	}
	const (
		deviation = 1.4826 // standard deviations of a normal distribution, in its median distances
		ofMedian  = 1.2533 // a median's standard error, in a mean's
	)
	return 2 * ofMedian * deviation * bench.Median(rounds) / math.Sqrt(float64(len(rounds)))
}

// rounds are the logarithms of a candidate's times by the built-in constants', each the mean of a round's steps.
func (s *search) rounds(candidate int) []float64 {
	n := math.MaxInt
	for _, step := range s.steps {
		n = min(n, len(step[candidate].sample), len(step[0].sample))
	}
	logs := make([]float64, n)
	for i := range logs {
		for _, step := range s.steps {
			logs[i] += math.Log(step[candidate].sample[i]/step[0].sample[i]) / float64(len(s.steps))
		}
	}
	return logs
}

// next is the candidate that takes the least time of those that compute otherwise than the built-in one, which it is
// where there is no other.
func (s *search) next() int {
	next, least := 0, math.Inf(1)
	for i := range s.list {
		if r := s.ratio(i); r < least && !slices.Equal(s.of(i), s.of(0)) {
			next, least = i, r
		}
	}
	return next
}

// best is the candidate that takes the least time; the built-in one unless
// another saves enough.
func (s *search) best() int {
	best, least := 0, 1-worthIt
	for i := range s.list {
		if r := s.ratio(i); r < least {
			best, least = i, r
		}
	}
	return best
}
