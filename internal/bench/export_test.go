package bench

import (
	"context"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/attn"
)

// Results are the outputs of all ways to compute a case of one sequence.
func Results(c *Case, a *Arena, eng *flashdec.Engine) (map[string][]float64, error) {
	views, err := a.Views(context.Background(), c)
	if err != nil {
		return nil, err
	}
	q := c.Query()
	ref, err := attn.Direct(c.Shape(), &attn.Options{Window: c.Window}, 0, q, views[0].Sequence(0))
	if err != nil {
		return nil, err
	}
	results := map[string][]float64{"direct": ref.Out}
	plain, size := make([]float32, len(q)), len(q)/c.KVHeads
	for head := range c.KVHeads {
		plainHead(c, &views[0], head, q[head*size:][:size], plain[head*size:][:size])
	}
	results["plain"] = widen(plain)
	step, err := eng.Plan(c.Batch(0))
	if err != nil {
		return nil, err
	}
	out := step.NewOutput()
	if err := eng.Decode(context.Background(), step, q, views[0], out); err != nil {
		return nil, err
	}
	results["flashdec"] = widen(out.Out)
	return results, nil
}

// RoundOf takes a round of one way, of one place, to compute the case.
func RoundOf(c *Case, step func() error) error {
	_, err := newImpl("", c, 1, func(context.Context, int) error { return step() }).round(context.Background())
	return err
}

func widen(x []float32) []float64 {
	wide := make([]float64, len(x))
	for i, v := range x {
		wide[i] = float64(v)
	}
	return wide
}
