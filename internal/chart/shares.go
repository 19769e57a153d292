package chart

import (
	"image/color"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/flashdec/flashdec/internal/bench"
)

// shares is a group of bars a case, the first case on top.
func shares(rows []bench.Row) (panel, error) {
	const bar = 2.2 * vg.Millimeter
	cases := distinct(rows, Label)
	group := vg.Length(len(ways(rows)))*bar + 2*vg.Millimeter
	p := newPanel(rows, 1.3*vg.Centimeter+vg.Length(len(cases))*group)
	for i, w := range p.legend {
		values := make(plotter.Values, len(cases))
		for _, r := range rows {
			if r.Impl == w.name {
				values[len(cases)-1-slices.Index(cases, Label(r))] = 100 * r.Share
			}
		}
		bars, err := plotter.NewBarChart(values, bar)
		if err != nil {
			return panel{}, err
		}
		bars.Horizontal, bars.LineStyle.Width, bars.Color = true, 0, w.color
		bars.Offset = (vg.Length(len(p.legend)-1)/2 - vg.Length(i)) * bar
		p.plot.Add(bars)
	}
	slices.Reverse(cases)
	p.plot.NominalY(cases...)
	p.plot.X.Label.Text = "bytes a second, in % of a bare read of the same bytes"
	p.plot.X.Min, p.plot.X.Max = 0, 105
	p.plot.Y.Min, p.plot.Y.Max = -0.5, float64(len(cases))-0.5
	p.plot.X.Tick.Marker = plot.ConstantTicks(percents)
	grid := plotter.NewGrid()
	grid.Horizontal.Width = 0
	grid.Vertical.Color = color.Gray{0xd0}
	p.plot.Add(grid)
	return p, nil
}

var percents = []plot.Tick{{Value: 0, Label: "0"}, {Value: 25, Label: "25"}, {Value: 50, Label: "50"}, {Value: 75, Label: "75"}, {Value: 100, Label: "100"}}
