package tune

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/internal/bench"
	"github.com/flashdec/flashdec/internal/cpu"
	"github.com/flashdec/flashdec/kv"
)

const (
	// leastRounds is how many rounds are measured however long they take, and
	// mostRounds how many are enough.
	leastRounds = 5
	mostRounds  = 41
	// sampleTime is how long a step is repeated for one sample.
	sampleTime = 200 * time.Microsecond
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
	decode func(context.Context) error
	sample []float64 // seconds of a step
}

// search is the measuring of a class.
type search struct {
	class    Class
	backends map[int]*cpu.Backend // by helper work
	list     []constants
	// steps[i][j] is how candidate j computes step i. Candidates that lead to the
	// same plan on the same backend share a timing.
	steps [][]*timing
}

// Measure finds a class's constants on the CPU with so many threads, in about
// that much time; tell is told how much of it is over, from 0 to 1. The entry has
// no day yet.
func Measure(ctx context.Context, class Class, threads int, budget time.Duration, tell func(float64)) (e Entry, err error) {
	a, err := bench.NewArena(class.arenaBytes(threads))
	if err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	s := &search{class: class, backends: map[int]*cpu.Backend{}, list: candidates(threads)}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.prepare(ctx, a, threads); err != nil {
		return e, err
	}
	first := budget - budget/confirming
	if err := s.measure(ctx, s.timings(), first, func(x float64) { tell(x * float64(first) / float64(budget)) }); err != nil {
		return e, err
	}
	best := s.best()
	if best > 0 {
		s.forget()
		pair := slices.Concat(s.of(0), s.of(best))
		if err := s.measure(ctx, pair, budget-first, func(x float64) { tell((float64(first) + x*float64(budget-first)) / float64(budget)) }); err != nil {
			return e, err
		}
		e.Saved = 1 - s.ratio(best)
		if e.Saved < worthIt {
			best, e.Saved = 0, 0
		}
	}
	tell(1)
	types := [2]kv.DType{class.DType, class.DType}
	e.Version = version
	e.Key = KeyOf(s.backends[0].Info(), class.Dim, class.Dim, class.Group, types)
	e.MinKeysPerSplit, e.HelperWork = s.list[best].minKeys, s.list[best].helperWork
	return e, nil
}

func (s *search) close() error {
	var err error
	for _, b := range s.backends {
		err = errors.Join(err, b.Close())
	}
	return err
}

// prepare plans every step with every candidate.
func (s *search) prepare(ctx context.Context, a *bench.Arena, threads int) error {
	for _, c := range s.list {
		if s.backends[c.helperWork] == nil {
			s.backends[c.helperWork] = cpu.New(cpu.Options{Threads: threads, HelperWork: c.helperWork})
		}
	}
	for _, c := range s.class.cases(threads) {
		views, err := a.Views(ctx, c)
		if err != nil {
			return err
		}
		step, err := s.prepareStep(c, views)
		if err != nil {
			return err
		}
		s.steps = append(s.steps, step)
	}
	return nil
}

// prepareStep plans one step with every candidate.
func (s *search) prepareStep(c *bench.Case, views []kv.View) ([]*timing, error) {
	type known struct {
		work   int
		step   *flashdec.Step
		timing *timing
	}
	var all []known
	var step []*timing
	q := make([]float32, c.Heads*c.Dim)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range q {
		q[i] = float32(rng.NormFloat64())
	}
	for _, x := range s.list {
		// The engine is not closed: its backend is, and others have it, too.
		engine, err := flashdec.Open(flashdec.Options{Backend: s.backends[x.helperWork], MinKeysPerSplit: x.minKeys})
		if err != nil {
			return nil, err
		}
		planned, err := engine.Plan(c.Batch(0))
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(all, func(k known) bool {
			return k.work == x.helperWork && slices.Equal(k.step.Plan().Items, planned.Plan().Items)
		})
		if i < 0 {
			i = len(all)
			all = append(all, known{x.helperWork, planned, &timing{decode: decoding(engine, planned, q, views)}})
		}
		step = append(step, all[i].timing)
	}
	return step, nil
}

// decoding decodes a step at the next of its places.
func decoding(engine *flashdec.Engine, step *flashdec.Step, q []float32, views []kv.View) func(context.Context) error {
	out, place := step.NewOutput(), 0
	return func(ctx context.Context) error {
		place = (place + 1) % len(views)
		return engine.Decode(ctx, step, q, views[place], out)
	}
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
			if err := t.take(ctx); err != nil {
				return err
			}
			tell(min(float64(time.Since(start))/float64(budget), 1))
		}
		if round+1 >= leastRounds && time.Since(start) > budget {
			return nil
		}
	}
	return nil
}

// take takes one sample, after a step that warms the buffers.
func (t *timing) take(ctx context.Context) error {
	if err := t.decode(ctx); err != nil {
		return err
	}
	n := 0
	start := time.Now()
	for n == 0 || time.Since(start) < sampleTime {
		if err := t.decode(ctx); err != nil {
			return err
		}
		n++
	}
	t.sample = append(t.sample, time.Since(start).Seconds()/float64(n))
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
