package main

import (
	"fmt"
	"image/color"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/flashdec/flashdec/internal/bench"
	"github.com/flashdec/flashdec/internal/whole"
)

// checkPlot refuses before the work what cannot be drawn to.
func checkPlot(path string) error {
	switch ext := strings.ToLower(filepath.Ext(path)); {
	case path == "" || ext == ".svg" || ext == ".png":
		return nil
	default:
		return fmt.Errorf("--plot is %q, want a name that ends in .svg or .png", path)
	}
}

// implColors tell the ways apart, in print and to eyes that see few colours.
var implColors = map[string]color.Color{
	"flashdec": color.RGBA{0x00, 0x72, 0xb2, 0xff},
	"unsplit":  color.RGBA{0xe6, 0x9f, 0x00, 0xff},
	"direct":   color.RGBA{0xcc, 0x79, 0xa7, 0xff},
	"plain":    color.RGBA{0x99, 0x99, 0x99, 0xff},
}

func implColor(name string) color.Color {
	if c, ok := implColors[name]; ok {
		return c
	}
	return color.RGBA{0x00, 0x9e, 0x73, 0xff} // a peer
}

// panel is one picture of the page.
type panel struct {
	plot   *plot.Plot
	height vg.Length
}

const plotWidth = 22 * vg.Centimeter

// drawBench draws a page: a panel a suite and number of threads. The suite of
// lengths is time against length, every other one bars of the ceiling's share.
func drawBench(path string, rows []bench.Row) error {
	var panels []panel
	for _, suite := range bench.BySuite(rows) {
		for _, part := range byThreads(suite) {
			draw := drawShares
			if part[0].Suite == "lengths" {
				draw = drawTimes
			}
			p, err := draw(part)
			if err != nil {
				return err
			}
			panels = append(panels, p)
		}
	}
	format := strings.ToLower(filepath.Ext(path))[1:]
	return whole.Write(path, func(w io.Writer) error { return writePage(w, format, panels) })
}

func byThreads(rows []bench.Row) [][]bench.Row {
	var counts []int
	for _, r := range rows {
		if !slices.Contains(counts, r.Threads) {
			counts = append(counts, r.Threads)
		}
	}
	parts := make([][]bench.Row, len(counts))
	for _, r := range rows {
		i := slices.Index(counts, r.Threads)
		parts[i] = append(parts[i], r)
	}
	return parts
}

// writePage stacks the panels.
func writePage(w io.Writer, format string, panels []panel) error {
	height := vg.Length(0)
	for _, p := range panels {
		height += p.height
	}
	page, err := draw.NewFormattedCanvas(plotWidth, height, format)
	if err != nil {
		return err
	}
	canvas := draw.New(page)
	top := canvas.Max.Y
	for _, p := range panels {
		part := canvas
		part.Max.Y, part.Min.Y = top, top-p.height
		p.plot.Draw(draw.Crop(part, 4*vg.Millimeter, -4*vg.Millimeter, 4*vg.Millimeter, -4*vg.Millimeter))
		top -= p.height
	}
	_, err = page.WriteTo(w)
	return err
}

// newPlot is an empty plot that says what was measured.
func newPlot(rows []bench.Row) *plot.Plot {
	p := plot.New()
	r := rows[0]
	kernels := strings.Join(names(rows, func(r bench.Row) string { return r.Kernel }), " and ")
	p.Title.Text = fmt.Sprintf("%s: %s on %s, %s", r.Suite, kernels, r.Device, count(r.Threads, "thread"))
	p.Title.Padding = 3 * vg.Millimeter
	p.Legend.Top = true
	return p
}

// cases and impls are the names in the rows, in the order of their first rows.
func cases(rows []bench.Row) []string { return names(rows, func(r bench.Row) string { return r.Case }) }

func impls(rows []bench.Row) []string { return names(rows, func(r bench.Row) string { return r.Impl }) }

func names(rows []bench.Row, name func(bench.Row) string) []string {
	var all []string
	for _, r := range rows {
		if n := name(r); !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	return all
}

// drawShares is a group of bars a case, the first case on top.
func drawShares(rows []bench.Row) (panel, error) {
	p := newPlot(rows)
	cases, impls := cases(rows), impls(rows)
	width := 2.2 * vg.Millimeter
	for i, impl := range impls {
		values := make(plotter.Values, len(cases))
		for _, r := range rows {
			if r.Impl == impl {
				values[len(cases)-1-slices.Index(cases, r.Case)] = 100 * r.Share
			}
		}
		bars, err := plotter.NewBarChart(values, width)
		if err != nil {
			return panel{}, err
		}
		bars.Horizontal, bars.LineStyle.Width, bars.Color = true, 0, implColor(impl)
		bars.Offset = (vg.Length(len(impls)-1)/2 - vg.Length(i)) * width
		p.Add(bars)
		p.Legend.Add(impl, bars)
	}
	slices.Reverse(cases)
	p.NominalY(cases...)
	p.X.Label.Text = "bytes a second, in % of a bare read of the same bytes"
	p.X.Min, p.X.Max = 0, 118 // the legend stands beside the bars
	grid := plotter.NewGrid()
	grid.Horizontal.Width = 0
	p.Add(grid)
	group := vg.Length(len(impls))*width + 2*vg.Millimeter
	return panel{p, 3*vg.Centimeter + vg.Length(len(cases))*group}, nil
}

// drawTimes is time against length, with the bare read as a line below all.
func drawTimes(rows []bench.Row) (panel, error) {
	p := newPlot(rows)
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.ConstantTicks(lengthTicks(rows))
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.ConstantTicks(timeTicks())
	p.X.Label.Text, p.Y.Label.Text = "keys", "time of a step"
	p.Add(plotter.NewGrid())
	for _, impl := range impls(rows) {
		var points, floor plotter.XYs
		for _, r := range rows {
			if r.Impl == impl && r.Note == "" { // a shortened step is no step of this length
				points = append(points, plotter.XY{X: float64(r.Len), Y: r.Seconds})
				floor = append(floor, plotter.XY{X: float64(r.Len), Y: float64(r.KVBytes) / r.Ceiling})
			}
		}
		if len(points) == 0 {
			continue
		}
		if err := addLine(p, impl, points, implColor(impl), nil); err != nil {
			return panel{}, err
		}
		if impl == "flashdec" {
			if err := addLine(p, "bare read", floor, color.Black, []vg.Length{3, 3}); err != nil {
				return panel{}, err
			}
		}
	}
	p.Legend.Left = true
	return panel{p, 12 * vg.Centimeter}, nil
}

func addLine(p *plot.Plot, name string, points plotter.XYs, c color.Color, dashes []vg.Length) error {
	line, err := plotter.NewLine(points)
	if err != nil {
		return err
	}
	line.Color, line.Width, line.Dashes = c, 1.5, dashes
	p.Add(line)
	p.Legend.Add(name, line)
	return nil
}

// lengthTicks are the lengths that were measured, every other one with its name.
func lengthTicks(rows []bench.Row) []plot.Tick {
	var ticks []plot.Tick
	for _, r := range rows {
		if n := len(ticks); n == 0 || ticks[n-1].Value < float64(r.Len) {
			label := ""
			if n%2 == 0 {
				label = fmt.Sprintf("%dK", r.Len>>10)
			}
			ticks = append(ticks, plot.Tick{Value: float64(r.Len), Label: label})
		}
	}
	return ticks
}

// timeTicks are the powers of ten of a second.
func timeTicks() []plot.Tick {
	ticks := []plot.Tick{}
	for _, seconds := range []float64{1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1, 10} {
		ticks = append(ticks, plot.Tick{Value: seconds, Label: duration(seconds)})
	}
	return ticks
}
