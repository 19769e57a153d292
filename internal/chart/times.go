package chart

import (
	"errors"
	"image/color"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/flashdec/flashdec/internal/bench"
)

// times is time against length, with the bare read as a line below all.
func times(rows []bench.Row) (panel, error) {
	// Logarithms have no place for nothing, and a shortened step is no step of its length.
	rows = slices.DeleteFunc(slices.Clone(rows), func(r bench.Row) bool { return r.Len < 1 || !(r.Seconds > 0) || r.Note != "" })
	if len(rows) == 0 {
		return panel{}, errors.New("chart: no row has a whole step's length and time")
	}
	p, err := againstLength(rows, func(r bench.Row) float64 { return r.Seconds }, func(p plotter.XY) float64 { return p.Y })
	if err != nil {
		return panel{}, err
	}
	p.plot.Y.Scale, p.plot.Y.Tick.Marker = plot.LogScale{}, plot.ConstantTicks(timeTicks())
	p.plot.X.Label.Text, p.plot.Y.Label.Text = "keys", "time of a step"
	p.plot.Y.Min, p.plot.Y.Max = within(timeTicks(), p.plot.Y.Min, p.plot.Y.Max)
	return p, nil
}

// againstLength is a value of each way against length, with that of the bare read, or
// of what else bounds it, as a line of its own, which is worked out from a length and its seconds. It sorts rows by length.
func againstLength(rows []bench.Row, value func(bench.Row) float64, bare func(floor plotter.XY) float64) (panel, error) {
	slices.SortStableFunc(rows, byLength)
	p := newPanel(rows, 9*vg.Centimeter)
	p.lines = true
	p.plot.X.Scale, p.plot.X.Tick.Marker = plot.LogScale{}, plot.ConstantTicks(lengthTicks(rows))
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{0xd0}, color.Gray{0xd0}
	p.plot.Add(grid)
	for _, w := range p.legend {
		var points plotter.XYs
		for _, r := range rows {
			if r.Impl == w.name {
				points = append(points, plotter.XY{X: float64(r.Len), Y: value(r)})
			}
		}
		if err := p.line(points, w); err != nil {
			return panel{}, err
		}
	}
	read := way{"bare read of the same bytes", color.Black, nil}
	if rows[0].Suite == bench.PromptSuite {
		read.name = "multiply-adds alone"
	}
	points := floors(rows)
	for i := range points {
		points[i].Y = bare(points[i])
	}
	if err := p.line(points, read); err != nil {
		return panel{}, err
	}
	p.legend = append(p.legend, read)
	if p.plot.X.Min, p.plot.X.Max = float64(rows[0].Len), float64(rows[len(rows)-1].Len); p.plot.X.Min == p.plot.X.Max {
		p.plot.X.Min, p.plot.X.Max = p.plot.X.Min/2, 2*p.plot.X.Max
	}
	return p, nil
}

// within is the range between the ticks around two values.
func within(ticks []plot.Tick, low, high float64) (below, above float64) {
	below, above = low, high
	for _, t := range ticks {
		if t.Value <= low {
			below = t.Value
		}
	}
	for _, t := range slices.Backward(ticks) {
		if t.Value >= high {
			above = t.Value
		}
	}
	return below, above
}

// floors are the times of what bounds a step, beside the first way that has one.
func floors(rows []bench.Row) plotter.XYs {
	var points plotter.XYs
	for _, r := range rows {
		if n := len(points); r.Floor() > 0 && (n == 0 || points[n-1].X < float64(r.Len)) {
			points = append(points, plotter.XY{X: float64(r.Len), Y: r.Floor()})
		}
	}
	return points
}

func (p *panel) line(points plotter.XYs, w way) error {
	if len(points) == 0 {
		return nil
	}
	line, err := plotter.NewLine(points)
	if err != nil {
		return err
	}
	line.LineStyle = w.line()
	p.plot.Add(line)
	if w.mark == nil {
		return nil
	}
	dots, err := plotter.NewScatter(points)
	if err != nil {
		return err
	}
	dots.GlyphStyle = w.dot()
	p.plot.Add(dots)
	return nil
}

// lengthTicks are the lengths that were measured, with as many names as fit.
func lengthTicks(rows []bench.Row) []plot.Tick {
	lengths := distinct(rows, func(r bench.Row) int { return r.Len })
	every := 1 + (len(lengths)-1)/12
	ticks := make([]plot.Tick, len(lengths))
	for i, n := range lengths {
		ticks[i].Value = float64(n)
		if i%every == 0 {
			ticks[i].Label = Keys(n)
		}
	}
	return ticks
}

// timeTicks are 1, 2 and 5 times the powers of ten of a second.
func timeTicks() []plot.Tick {
	var ticks []plot.Tick
	whole := strings.NewReplacer(".00 ", " ", ".0 ", " ") // as all of these are in their units
	for power := -6; power <= 1; power++ {
		for _, digit := range []float64{1, 2, 5} {
			seconds := digit * math.Pow10(power)
			ticks = append(ticks, plot.Tick{Value: seconds, Label: whole.Replace(bench.Duration(seconds))})
		}
	}
	return ticks
}
