package bench

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/internal/simd"
)

// PromptSuite is the suite of rows that say how fast a model reads prompts. Its bound is multiply-adds, not memory.
const PromptSuite = "prompt"

// Prompt is a prompt of Context tokens that a model read: a step is all of it.
type Prompt struct {
	ModelSteps
	MultiplyAdds int64     // that reading it takes
	Peak         []float64 // multiply-adds a second of nothing but these just before, in each round; nil: not measured
}

// Row is what there is to report. Commit and command are the caller's to add.
func (p *Prompt) Row(threads int, info backend.Info) Row {
	seconds := Median(p.Seconds)
	r := Row{
		Suite: PromptSuite, Case: fmt.Sprintf("%s, %d tokens", p.Model, p.Context), Backend: info.Name, Kernel: info.Kernel, Impl: p.Impl,
		Batch: 1, QHeads: p.QHeads, KVHeads: p.KVHeads, KeyDim: p.Dim, ValueDim: p.Dim, Len: p.Context, Keys: p.Context, QLen: p.Context,
		KVDType: p.KVDType, Threads: threads, Splits: p.Splits,
		Rounds: len(p.Seconds), Seconds: seconds, Min: slices.Min(p.Seconds), KVBytes: int64(p.KVBytes),
		Device: info.Device, Model: p.Model, WeightBytes: int64(p.WeightBytes), TokenRate: float64(p.Context) / seconds, MultiplyAdds: p.MultiplyAdds,
	}
	if len(p.Peak) > 0 {
		r.Peak = Median(p.Peak)
		r.Spread = slices.Max(p.Peak)/r.Peak - 1
		r.Share = shareOf(float64(p.MultiplyAdds), p.Seconds, p.Peak)
	}
	return r
}

// promptPatience is how long all rounds of one way may take, unless that is one round.
const promptPatience = 8 * time.Second

// MeasurePrompts takes rounds of all ways in turns, in [balanced] order, each way after multiply-adds alone, whose pace peak
// tells, unless that is nil. A first round does not count; but where prompts take long it does, and they get few more.
func MeasurePrompts(ctx context.Context, ways []*Prompt, rounds int, peak func() float64) error {
	start := time.Now()
	for round := range rounds + 1 {
		for w := range balanced(ways, round) {
			if peak != nil {
				w.Peak = append(w.Peak, peak())
			}
			seconds, err := w.Step(ctx)
			if err != nil {
				return err
			}
			w.Seconds = append(w.Seconds, seconds)
		}
		switch spent := time.Since(start); {
		case round == 0 && spent < time.Second*time.Duration(len(ways)):
			for _, w := range ways {
				w.Peak, w.Seconds = w.Peak[:0], w.Seconds[:0]
			}
		case spent > promptPatience*time.Duration(len(ways)) && len(ways[0].Seconds) > 0:
			return nil
		}
	}
	return nil
}

// MultiplyAdds does nothing but multiply and add for a while, on as many goroutines, and returns how many
// a second at best: products with rows that lie in the first cache, all sums in registers.
func MultiplyAdds(threads int) float64 {
	const rows, dim, repeats, tries = 48, simd.TileKeys, 1000, 8
	panels := make([]simd.Panel, threads)
	x := make([]float32, max(rows, simd.TileKeys)*dim)
	for i := range x {
		x[i] = float32(i % 7)
	}
	var off [simd.TileKeys]int
	for j := range off {
		off[j] = 4 * dim * j
	}
	data := make([]byte, 4*len(x))
	simd.Narrow(data, simd.F32, x)
	y := make([][]float32, threads)
	for i := range panels {
		panels[i].Set(simd.F32, simd.Tile{Data: data, Off: off[:]}, dim)
		y[i] = make([]float32, rows*simd.TileKeys)
	}
	best := time.Duration(math.MaxInt64)
	for range tries {
		start := time.Now()
		share(threads, threads, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				for range repeats {
					panels[i].Multiply(y[i], simd.TileKeys, x, rows)
				}
			}
		})
		best = min(best, time.Since(start))
	}
	return float64(threads) * repeats * rows * dim * simd.TileKeys / best.Seconds()
}
