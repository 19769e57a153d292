package chart

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"

	"github.com/flashdec/flashdec/internal/bench"
)

// rates is a model's tokens a second against its context, or against the length of a prompt that it reads, with what
// a bare read of the same bytes, or multiply-adds alone, would allow as a line above all.
func rates(rows []bench.Row) (panel, error) {
	rows = slices.DeleteFunc(slices.Clone(rows), func(r bench.Row) bool { return r.Len < 1 || !(r.TokenRate > 0) })
	if len(rows) == 0 {
		return panel{}, errors.New("chart: no row has a context and tokens a second")
	}
	tokens := func(length float64) float64 { // that a step yields
		if rows[0].Suite == bench.PromptSuite {
			return length
		}
		return 1
	}
	p, err := againstLength(rows, func(r bench.Row) float64 { return r.TokenRate }, func(floor plotter.XY) float64 { return tokens(floor.X) / floor.Y })
	if err != nil {
		return panel{}, err
	}
	p.plot.X.Label.Text, p.plot.Y.Label.Text = "context, tokens", "tokens a second"
	if rows[0].Suite == bench.PromptSuite {
		p.plot.X.Label.Text = "prompt, tokens"
	}
	step := rateStep(p.plot.Y.Max)
	p.plot.Y.Min, p.plot.Y.Max = 0, step*math.Ceil(p.plot.Y.Max/step)
	var ticks []plot.Tick
	for y := 0.0; y <= p.plot.Y.Max+step/2; y += step {
		ticks = append(ticks, plot.Tick{Value: y, Label: fmt.Sprintf("%g", y)})
	}
	p.plot.Y.Tick.Marker = plot.ConstantTicks(ticks)
	return p, nil
}

// rateStep is 1, 2 or 5 times a power of ten, five to twelve of which make a value.
func rateStep(most float64) float64 {
	power := math.Pow10(int(math.Floor(math.Log10(most))) - 1)
	for _, digit := range []float64{1, 2, 5} {
		if most/(digit*power) <= 12 {
			return digit * power
		}
	}
	return 10 * power
}
