package bench

import (
	"context"
	"sync"
	"time"

	"github.com/flashdec/flashdec/internal/simd"
	"github.com/flashdec/flashdec/kv"
)

// share runs part on each of threads goroutines, with its share [lo, hi) of n.
func share(n, threads int, part func(lo, hi int)) {
	var wg sync.WaitGroup
	for t := range threads {
		wg.Go(func() { part(t*n/threads, (t+1)*n/threads) })
	}
	wg.Wait()
}

// ceilingOf reads the keys and values that the step sees, and does nothing with
// them: no decode takes less. Threads meet once a round, not once a step, so that
// waiting for each other is no part of it.
func ceilingOf(c *Case, views []kv.View, threads int) *Impl {
	n := c.Keys() * c.KVHeads * c.rowBytes()
	return &Impl{
		Name: "ceiling", Case: *c, bytes: 2 * n, places: len(views),
		round: func(ctx context.Context) (float64, error) {
			start := time.Now()
			share(n, threads, func(lo, hi int) {
				for i := range views {
					simd.ReadSum(views[i].K.Data[lo:hi])
					simd.ReadSum(views[i].V.Data[lo:hi])
				}
			})
			return time.Since(start).Seconds() / float64(len(views)), ctx.Err()
		},
	}
}
