package main

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/internal/simd"
	"github.com/flashdec/flashdec/kv"
)

// stopwatch times one way to do a step's work. It returns seconds a step.
type stopwatch func(context.Context) (float64, error)

// impl is one way to compute a case, measured beside the others.
type impl struct {
	name  string
	step  benchCase // what it computes: slow ones get a shorter case
	plan  int       // splits a sequence and head; 0: it has none
	watch stopwatch
	times []float64
}

// slowKeys is how many keys the direct form and the plain loop get: enough to be
// out of the caches, few enough to wait for.
const slowKeys = 8192

// impls are the ways to compute a case, the read ceiling first.
func impls(c benchCase, a *arena, threads int, eng *flashdec.Engine) ([]*impl, error) {
	views, err := a.views(&c)
	if err != nil {
		return nil, err
	}
	list := []*impl{{name: "ceiling", step: c, watch: readAll(views, &c, threads)}}
	for _, way := range []struct {
		name   string
		splits int
	}{{"flashdec", 0}, {"unsplit", 1}} {
		step, err := eng.Plan(c.batch(way.splits))
		if err != nil {
			return nil, err
		}
		most := 0
		for _, u := range step.Plan().Units {
			most = max(most, u.NumSplits)
		}
		list = append(list, &impl{name: way.name, step: c, plan: most, watch: decodeAll(eng, step, views, &c)})
	}
	short := c
	short.lens = []int{min(slowKeys, slices.Max(c.lens))}
	if views, err = a.views(&short); err != nil {
		return nil, err
	}
	return append(list,
		&impl{name: "direct", step: short, watch: directOne(views, &short, threads)},
		&impl{name: "plain", step: short, watch: plainOne(views, &short, threads)}), nil
}

// measure runs all impls in turn, rounds times after one that does not count, so
// that whatever else the machine does meets all of them.
func measure(ctx context.Context, list []*impl, rounds int) error {
	for round := range rounds + 1 {
		for _, im := range list {
			seconds, err := im.watch(ctx)
			if err != nil {
				return err
			}
			if round > 0 {
				im.times = append(im.times, seconds)
			}
		}
	}
	return nil
}

// median of a list that is not empty.
func median(x []float64) float64 {
	sorted := slices.Sorted(slices.Values(x))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// split cuts [0, n) over threads and runs part on each.
func split(n, threads int, part func(lo, hi int)) {
	var wg sync.WaitGroup
	for t := range threads {
		wg.Go(func() { part(t*n/threads, (t+1)*n/threads) })
	}
	wg.Wait()
}

// readAll reads all bytes of the views that the step needs, and does nothing with
// them: no decode can take less.
func readAll(views []kv.View, c *benchCase, threads int) stopwatch {
	return func(ctx context.Context) (float64, error) {
		n := c.kvBytes() / 2
		start := time.Now()
		for i := range views {
			split(n, threads, func(lo, hi int) {
				simd.ReadSum(views[i].K.Data[lo:hi])
				simd.ReadSum(views[i].V.Data[lo:hi])
			})
		}
		return time.Since(start).Seconds() / float64(len(views)), ctx.Err()
	}
}

// decodeAll is this project's decode of each view.
func decodeAll(eng *flashdec.Engine, step *flashdec.Step, views []kv.View, c *benchCase) stopwatch {
	q, out := c.query(), step.NewOutput()
	return func(ctx context.Context) (float64, error) {
		start := time.Now()
		for i := range views {
			if err := eng.Decode(ctx, step, q, views[i], out); err != nil {
				return 0, err
			}
		}
		return time.Since(start).Seconds() / float64(len(views)), nil
	}
}

// query makes the step's queries.
func (c *benchCase) query() []float32 {
	rng := rand.New(rand.NewPCG(4, 5))
	q := make([]float32, len(c.lens)*c.queries*c.heads*c.dim)
	for i := range q {
		q[i] = float32(rng.NormFloat64())
	}
	return q
}

// directOne is the direct softmax in float64, a KV head at a time on each thread.
func directOne(views []kv.View, c *benchCase, threads int) stopwatch {
	shape, opt, q := c.shape(), attn.Options{Window: c.window}, c.query()
	return func(ctx context.Context) (float64, error) {
		ref := attn.Reference{Out: make([]float64, len(q)), LSE: make([]float64, c.heads*c.queries)}
		start := time.Now()
		split(c.kvHeads, threads, func(lo, hi int) {
			for head := lo; head < hi && ctx.Err() == nil; head++ {
				attn.DirectHead(&ref, shape, &opt, 0, head, q, views[0].Sequence(0))
			}
		})
		return time.Since(start).Seconds(), ctx.Err()
	}
}
