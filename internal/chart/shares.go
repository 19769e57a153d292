package chart

import (
	"fmt"
	"image/color"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

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
		offset := (vg.Length(len(p.legend)-1)/2 - vg.Length(i)) * bar
		for _, r := range rows {
			if r.Impl == w.name {
				at := len(cases) - 1 - slices.Index(cases, Label(r))
				if values[at] = 100 * r.Share; values[at] > most {
					p.over = append(p.over, mark{at, offset, values[at]})
					values[at] = most
				}
			}
		}
		bars, err := plotter.NewBarChart(values, bar)
		if err != nil {
			return panel{}, err
		}
		bars.Horizontal, bars.LineStyle.Width, bars.Color = true, 0, w.color
		bars.Offset = offset
		p.plot.Add(bars)
	}
	names := marked(cases, rows)
	slices.Reverse(names)
	p.plot.NominalY(names...)
	p.plot.X.Label.Text = "bytes a second, in % of a bare read of the same bytes"
	if slices.ContainsFunc(rows, func(r bench.Row) bool { return r.Disturbed() }) {
		p.plot.X.Label.Text += "; ~ a read that was disturbed"
	}
	p.plot.X.Min, p.plot.X.Max = 0, most
	if len(p.over) > 0 {
		p.plot.X.Max += overRoom
	}
	p.plot.Y.Min, p.plot.Y.Max = -0.5, float64(len(cases))-0.5
	p.plot.X.Tick.Marker = plot.ConstantTicks(percents)
	p.above = percents
	grid := plotter.NewGrid()
	grid.Horizontal.Width = 0
	grid.Vertical.Color = color.Gray{0xd0}
	p.plot.Add(grid)
	return p, nil
}

// most is where bars end, in percent. A share of more is a read that was slower than
// the decode beside it.
const most = 105

// overRoom is the room on the axis behind bars that are cut off, for what they would
// reach.
const overRoom = 10

// mark is a bar that is cut off, and what it would reach.
type mark struct {
	at     int       // on the axis of cases
	offset vg.Length // from there
	value  float64
}

// marked are the cases' names, with a ~ where a bare read was disturbed.
func marked(cases []string, rows []bench.Row) []string {
	names := slices.Clone(cases)
	for _, r := range rows {
		if i := slices.Index(cases, Label(r)); r.Disturbed() && names[i] == cases[i] {
			names[i] += " ~"
		}
	}
	return names
}

// drawOver writes the ticks' names above a plot, which may be long, and what the bars
// would reach that are cut off.
func (p panel) drawOver(c draw.Canvas) {
	style := text.Style{Color: color.Black, Font: sans(10), Handler: p.plot.TextHandler, XAlign: draw.XCenter, YAlign: draw.YBottom}
	for _, tick := range p.above {
		c.FillText(style, vg.Point{X: c.X(p.plot.X.Norm(tick.Value)), Y: c.Max.Y + vg.Millimeter/2}, tick.Label)
	}
	style.Font, style.XAlign, style.YAlign = sans(9), draw.XLeft, draw.YCenter
	for _, m := range p.over {
		at := vg.Point{X: c.X(p.plot.X.Norm(most)) + vg.Millimeter/2, Y: c.Y(p.plot.Y.Norm(float64(m.at))) + m.offset}
		c.FillText(style, at, fmt.Sprintf("» %.0f%%", m.value))
	}
}

var percents = []plot.Tick{{Value: 0, Label: "0"}, {Value: 25, Label: "25"}, {Value: 50, Label: "50"}, {Value: 75, Label: "75"}, {Value: 100, Label: "100"}}
