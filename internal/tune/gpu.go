package tune

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/internal/bench"
	"github.com/flashdec/flashdec/internal/gpubench"
	"github.com/flashdec/flashdec/plan"
)

// GPUBytes is the memory for cases that a GPU needs to be measured.
const GPUBytes = maxBytes

// gpuBed measures on a GPU. It has no helpers to wake: the constants are the
// planner's alone.
type gpuBed struct {
	gpu  *gpubench.GPU
	ways []io.Closer
}

func (b *gpuBed) info() backend.Info          { return b.gpu.Info() }
func (b *gpuBed) candidates() []constants     { return candidates(1) }
func (b *gpuBed) cases(c Class) []*bench.Case { return c.cases(b.gpu.Info().Width) }

func (b *gpuBed) close() error {
	var err error
	for _, w := range b.ways {
		err = errors.Join(err, w.Close())
	}
	return err
}

func (b *gpuBed) timings(ctx context.Context, c *bench.Case, list []constants) ([]*timing, error) {
	var plans []*plan.Plan
	var which []int // of plans, a candidate
	for _, x := range list {
		engine, err := flashdec.Open(flashdec.Options{Backend: b.gpu, MinKeysPerSplit: x.minKeys})
		if err != nil {
			return nil, err
		}
		planned, err := engine.Plan(c.Batch(0))
		if err != nil {
			return nil, err
		}
		p := planned.Plan()
		i := slices.IndexFunc(plans, func(q *plan.Plan) bool { return slices.Equal(p.Items, q.Items) })
		if i < 0 {
			i = len(plans)
			plans = append(plans, p)
		}
		which = append(which, i)
	}
	ways, take, err := b.gpu.Plans(ctx, c, plans)
	if err != nil {
		return nil, err
	}
	b.ways = append(b.ways, ways)
	var all, step []*timing
	for _, f := range take {
		all = append(all, &timing{take: f})
	}
	for _, i := range which {
		step = append(step, all[i])
	}
	return step, nil
}
