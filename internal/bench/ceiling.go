package bench

import (
	"context"
	"sync"
	"sync/atomic"
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

// pieceBytes is what a thread of the bare read takes at a time: enough to stream,
// little enough that all end together although one may be disturbed.
const pieceBytes = 1 << 20

// ceilingOf reads the keys and values that the step sees, and does nothing with
// them: no decode takes less. Threads take pieces until none is left, and meet
// once a round, not once a step, so that waiting for each other is no part of it.
func ceilingOf(c *Case, views []kv.View, threads int) *Impl {
	n := c.Keys() * c.KVHeads * c.RowBytes()
	var pieces [][]byte
	for i := range views {
		for _, data := range [][]byte{views[i].K.Data[:n], views[i].V.Data[:n]} {
			for len(data) > 0 {
				piece := data[:min(pieceBytes, len(data))]
				pieces, data = append(pieces, piece), data[len(piece):]
			}
		}
	}
	return &Impl{
		Name: "ceiling", Case: *c, bytes: 2 * n, places: len(views),
		round: func(ctx context.Context) (float64, error) {
			start := time.Now()
			readAll(ctx, pieces, threads)
			return time.Since(start).Seconds() / float64(len(views)), ctx.Err()
		},
	}
}

// readAll reads all pieces, or some when ctx is done.
func readAll(ctx context.Context, pieces [][]byte, threads int) {
	var next atomic.Int64
	share(threads, threads, func(int, int) {
		for i := next.Add(1); i <= int64(len(pieces)) && ctx.Err() == nil; i = next.Add(1) {
			simd.ReadSum(pieces[i-1])
		}
	})
}
