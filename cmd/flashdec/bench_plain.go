package main

import (
	"context"
	"math"
	"time"

	"github.com/flashdec/flashdec/kv"
)

// plainOne is the loop that one writes first: for each query head, score each
// key, take the softmax, sum the values.
func plainOne(views []kv.View, c *benchCase, threads int) stopwatch {
	q := c.query()
	return func(ctx context.Context) (float64, error) {
		out := make([]float32, len(q))
		start := time.Now()
		split(c.heads, threads, func(lo, hi int) {
			for h := lo; h < hi && ctx.Err() == nil; h++ {
				plainHead(out[h*c.dim:][:c.dim], q[h*c.dim:][:c.dim], &views[0], h*c.kvHeads/c.heads)
			}
		})
		return time.Since(start).Seconds(), ctx.Err()
	}
}

func plainHead(out, q []float32, view *kv.View, head int) {
	kvs := view.Sequence(0)
	row := make([]float32, len(q))
	scores := make([]float32, kvs.Len())
	largest := float32(math.Inf(-1))
	for j := range scores {
		kvs.Key(row, head, j)
		for d := range q {
			scores[j] += q[d] * row[d]
		}
		scores[j] /= float32(math.Sqrt(float64(len(q))))
		largest = max(largest, scores[j])
	}
	var sum float32
	for j := range scores {
		scores[j] = float32(math.Exp(float64(scores[j] - largest)))
		sum += scores[j]
	}
	for j := range scores {
		kvs.Value(row, head, j)
		for d := range out {
			out[d] += scores[j] / sum * row[d]
		}
	}
}
