package tune

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/internal/bench"
	"github.com/flashdec/flashdec/internal/cpu"
	"github.com/flashdec/flashdec/kv"
)

// sampleTime is how long a step is repeated for one sample.
const sampleTime = 200 * time.Microsecond

// cpuBed measures on the CPU, whose constants are both of the planner and of the
// backend.
type cpuBed struct {
	threads  int
	arena    *bench.Arena
	backends map[int]*cpu.Backend // by helper work
}

func newCPUBed(class Class, threads int) (*cpuBed, error) {
	arena, err := bench.NewArena(class.arenaBytes(threads))
	if err != nil {
		return nil, err
	}
	b := &cpuBed{threads: threads, arena: arena, backends: map[int]*cpu.Backend{}}
	for _, x := range candidates(threads) {
		if b.backends[x.helperWork] == nil {
			b.backends[x.helperWork] = cpu.New(cpu.Options{Threads: threads, HelperWork: x.helperWork})
		}
	}
	return b, nil
}

func (b *cpuBed) info() backend.Info          { return b.backends[0].Info() }
func (b *cpuBed) candidates() []constants     { return candidates(b.threads) }
func (b *cpuBed) cases(c Class) []*bench.Case { return c.cases(b.threads) }

func (b *cpuBed) close() error {
	err := b.arena.Close()
	for _, x := range b.backends {
		err = errors.Join(err, x.Close())
	}
	return err
}

func (b *cpuBed) timings(ctx context.Context, c *bench.Case, list []constants) ([]*timing, error) {
	views, err := b.arena.Views(ctx, c)
	if err != nil {
		return nil, err
	}
	type known struct {
		work   int
		step   *flashdec.Step
		timing *timing
	}
	var all []known
	var step []*timing
	for _, x := range list {
		// The engine is not closed: its backend is, and others have it, too.
		engine, err := flashdec.Open(flashdec.Options{Backend: b.backends[x.helperWork], MinKeysPerSplit: x.minKeys})
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
			all = append(all, known{x.helperWork, planned, &timing{take: decoding(engine, planned, c.Query(), views)}})
		}
		step = append(step, all[i].timing)
	}
	return step, nil
}

// decoding takes samples of a step at one place after the other.
func decoding(engine *flashdec.Engine, step *flashdec.Step, q []float32, views []kv.View) func(context.Context) (float64, error) {
	out, place := step.NewOutput(), 0
	decode := func(ctx context.Context) error {
		place = (place + 1) % len(views)
		return engine.Decode(ctx, step, q, views[place], out)
	}
	return func(ctx context.Context) (float64, error) {
		if err := decode(ctx); err != nil { // it warms the buffers
			return 0, err
		}
		n := 0
		start := time.Now()
		for n == 0 || time.Since(start) < sampleTime {
			if err := decode(ctx); err != nil {
				return 0, err
			}
			n++
		}
		return time.Since(start).Seconds() / float64(n), nil
	}
}
