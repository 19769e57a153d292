package chart

import (
	"errors"
	"fmt"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/flashdec/flashdec/internal/bench"
)

// rates is a model's tokens a second against its context, with what a bare read of the same bytes would allow
// as a line above all.
func rates(rows []bench.Row) (panel, error) {
	rows = slices.DeleteFunc(slices.Clone(rows), func(r bench.Row) bool { return r.Len < 1 || !(r.TokenRate > 0) })
	if len(rows) == 0 {
		return panel{}, errors.New("chart: no row has a context and tokens a second")
	}
	slices.SortStableFunc(rows, byLength)
	p := newPanel(rows, 9*vg.Centimeter)
	p.lines = true
	p.plot.X.Scale, p.plot.X.Tick.Marker = plot.LogScale{}, plot.ConstantTicks(lengthTicks(rows))
	p.plot.X.Label.Text, p.plot.Y.Label.Text = "context, tokens", "tokens a second"
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{0xd0}, color.Gray{0xd0}
	p.plot.Add(grid)
	for _, w := range p.legend {
		var points plotter.XYs
		for _, r := range rows {
			if r.Impl == w.name {
				points = append(points, plotter.XY{X: float64(r.Len), Y: r.TokenRate})
			}
		}
		if err := p.line(points, w); err != nil {
			return panel{}, err
		}
	}
	ceiling := way{"bare read of the same bytes", color.Black, nil}
	points := floors(rows)
	for i := range points {
		points[i].Y = 1 / points[i].Y
	}
	if err := p.line(points, ceiling); err != nil {
		return panel{}, err
	}
	p.legend = append(p.legend, ceiling)
	if p.plot.X.Min, p.plot.X.Max = float64(rows[0].Len), float64(rows[len(rows)-1].Len); p.plot.X.Min == p.plot.X.Max {
		p.plot.X.Min, p.plot.X.Max = p.plot.X.Min/2, 2*p.plot.X.Max
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
