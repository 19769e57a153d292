// Package chart draws measured rows as pictures: time against length with the bare
// read as a line below, and the share of it as bars.
package chart

import (
	"cmp"
	"fmt"
	"image/color"
	"io"
	"regexp"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/flashdec/flashdec/internal/bench"
)

// Formats are the names of the forms that Write knows.
var Formats = []string{"svg", "png"}

// Write draws a page: a panel a suite, device, model and number of threads. The suite of
// lengths is drawn as time against length, models as tokens a second against context,
// and every other suite as bars of the bare read's share. The format is one of Formats.
func Write(w io.Writer, format string, rows []bench.Row) error {
	return write(w, format, rows, func(part []bench.Row) (panel, error) {
		switch part[0].Suite {
		case "lengths":
			return times(part)
		case bench.ModelSuite, bench.PromptSuite:
			return rates(part)
		}
		return shares(part)
	})
}

// WriteShares is Write with bars alone.
func WriteShares(w io.Writer, format string, rows []bench.Row) error {
	return write(w, format, rows, shares)
}

// WriteTimes is Write with lines alone, for rows of one shape at several lengths.
func WriteTimes(w io.Writer, format string, rows []bench.Row) error {
	return write(w, format, rows, times)
}

func write(w io.Writer, format string, rows []bench.Row, draw func([]bench.Row) (panel, error)) error {
	var panels []panel
	for _, suite := range bench.BySuite(rows) {
		for _, part := range apart(suite) {
			p, err := draw(part)
			if err != nil {
				return err
			}
			panels = append(panels, p)
		}
	}
	return page(w, format, panels)
}

// apart cuts rows by device, model and number of threads.
func apart(rows []bench.Row) [][]bench.Row {
	type machine struct {
		device, model string
		threads       int
	}
	var parts [][]bench.Row
	place := make(map[machine]int)
	for _, r := range rows {
		m := machine{r.Device, r.Model, r.Threads}
		i, known := place[m]
		if !known {
			i = len(parts)
			place[m] = i
			parts = append(parts, nil)
		}
		parts[i] = append(parts[i], r)
	}
	return parts
}

// way is how one implementation is drawn: told apart by colour, by the marks of its
// points, and by its place in the order of the legend.
type way struct {
	name  string
	color color.Color
	mark  draw.GlyphDrawer // nil: none, and the line is dashed
}

func (w way) line() draw.LineStyle {
	style := draw.LineStyle{Color: w.color, Width: 1.5}
	if w.mark == nil {
		style.Dashes = []vg.Length{3, 3}
	}
	return style
}

func (w way) dot() draw.GlyphStyle {
	return draw.GlyphStyle{Color: w.color, Radius: 1.2 * vg.Millimeter, Shape: w.mark}
}

var marks = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.CrossGlyph{}, draw.PlusGlyph{}, draw.RingGlyph{}}

// ownColors are those of the project's own ways; peers take the others in turn. They
// differ in print and to eyes that see few colours (Okabe and Ito).
var (
	ownColors = map[string]color.Color{
		"flashdec": color.RGBA{0x00, 0x72, 0xb2, 0xff},
		"unsplit":  color.RGBA{0xe6, 0x9f, 0x00, 0xff},
		"direct":   color.RGBA{0xcc, 0x79, 0xa7, 0xff},
		"plain":    color.RGBA{0x99, 0x99, 0x99, 0xff},
	}
	peerColors = []color.Color{color.RGBA{0x00, 0x9e, 0x73, 0xff}, color.RGBA{0xd5, 0x5e, 0x00, 0xff}, color.RGBA{0x56, 0xb4, 0xe9, 0xff}}
)

// ways are the implementations in the rows, in the order of their first rows.
func ways(rows []bench.Row) []way {
	var all []way
	peers := 0
	for _, name := range distinct(rows, func(r bench.Row) string { return r.Impl }) {
		c, own := ownColors[name]
		if !own {
			c = peerColors[peers%len(peerColors)]
			peers++
		}
		all = append(all, way{name, c, marks[len(all)%len(marks)]})
	}
	return all
}

func distinct[T comparable](rows []bench.Row, field func(bench.Row) T) []T {
	var all []T
	for _, r := range rows {
		if v := field(r); !slices.Contains(all, v) {
			all = append(all, v)
		}
	}
	return all
}

// panel is one picture of a page, with its title and legend above it.
type panel struct {
	title  string
	legend []way
	lines  bool // else bars
	plot   *plot.Plot
	height vg.Length   // of the plot
	above  []plot.Tick // of an axis above the plot, too; nil for none
	over   []mark      // bars that are cut off
}

const (
	width      = 22 * vg.Centimeter
	margin     = 4 * vg.Millimeter
	headHeight = 15 * vg.Millimeter // of a title and a legend
)

// sans is the font of all text: its widths are those of the sans-serif fonts that most
// machines have.
func sans(size vg.Length) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
}

// newPanel is an empty picture that says what was measured.
func newPanel(rows []bench.Row, height vg.Length) panel {
	p := plot.New()
	for _, style := range []*text.Style{&p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label} {
		style.Font = sans(10)
	}
	p.X.LineStyle.Color, p.Y.LineStyle.Color = color.Gray{0x80}, color.Gray{0x80}
	return panel{title: title(rows), plot: p, height: height, legend: ways(rows)}
}

// title is "types on AMD EPYC, 2 threads, avx512 kernels".
func title(rows []bench.Row) string {
	words := fmt.Sprintf("%s on %s", cmp.Or(rows[0].Model, rows[0].Suite), rows[0].Device)
	if n := rows[0].Threads; n == 1 {
		words += ", 1 thread"
	} else if n > 1 {
		words += fmt.Sprintf(", %d threads", n)
	}
	kernels := distinct(rows, func(r bench.Row) string { return r.Kernel })
	if kernels = slices.DeleteFunc(kernels, func(k string) bool { return k == "" }); len(kernels) > 0 {
		words += ", " + strings.Join(kernels, " and ") + " kernels"
	}
	return words
}

// page stacks the panels.
func page(w io.Writer, format string, panels []panel) error {
	height := vg.Length(0)
	for _, p := range panels {
		height += p.height + headHeight + 2*margin
	}
	sheet, err := newSheet(format, height)
	if err != nil {
		return err
	}
	canvas := draw.New(sheet)
	canvas.FillPolygon(color.White, []vg.Point{{X: 0, Y: 0}, {X: width, Y: 0}, {X: width, Y: height}, {X: 0, Y: height}})
	top := canvas.Max.Y
	for _, p := range panels {
		part := canvas
		part.Max.Y, part.Min.Y = top, top-p.height-headHeight-2*margin
		p.draw(draw.Crop(part, margin, -margin, margin, -margin))
		top = part.Min.Y
	}
	_, err = sheet.WriteTo(w)
	return err
}

// draw draws the title, the legend as one line, and the plot below them.
func (p panel) draw(c draw.Canvas) {
	style := text.Style{Color: color.Black, Font: sans(13), Handler: p.plot.TextHandler, YAlign: draw.YTop}
	c.FillText(style, vg.Point{X: c.Min.X, Y: c.Max.Y}, p.title)
	style.Font, style.YAlign = sans(10), draw.YCenter
	x, y := c.Min.X, c.Max.Y-8*vg.Millimeter
	for _, w := range p.legend {
		x = p.key(c, w, vg.Point{X: x, Y: y}) + 1.5*vg.Millimeter
		c.FillText(style, vg.Point{X: x, Y: y}, w.name)
		x += style.Width(w.name) + 6*vg.Millimeter
	}
	c = draw.Crop(c, 0, 0, 0, -headHeight)
	p.plot.Draw(c)
	p.drawOver(p.plot.DataCanvas(c))
}

// key draws what the legend has before a name, a box or a piece of line, and returns
// where it ends.
func (p panel) key(c draw.Canvas, w way, at vg.Point) vg.Length {
	const box, line = 3 * vg.Millimeter, 7 * vg.Millimeter
	if !p.lines {
		c.FillPolygon(w.color, []vg.Point{{X: at.X, Y: at.Y - box/2}, {X: at.X + box, Y: at.Y - box/2}, {X: at.X + box, Y: at.Y + box/2}, {X: at.X, Y: at.Y + box/2}})
		return at.X + box
	}
	c.StrokeLine2(w.line(), at.X, at.Y, at.X+line, at.Y)
	if w.mark != nil {
		c.DrawGlyph(w.dot(), vg.Point{X: at.X + line/2, Y: at.Y})
	}
	return at.X + line
}

// shortBlog is a case of the suite blog as peers' records name it: 256x256.
var shortBlog = regexp.MustCompile(`^(\d+)x(\d+)$`)

// Label names a row's case as package bench does, whoever recorded it: [1 32 8 1024 128]
// and 256x256 stand for the suites' own names, so that rows of one case are found
// together.
func Label(r bench.Row) string {
	if strings.HasPrefix(r.Case, "[") {
		return fmt.Sprintf("batch %d, %d/%d heads, %d keys, dim %d", r.Batch, r.QHeads, r.KVHeads, r.Len, r.KeyDim)
	}
	return shortBlog.ReplaceAllString(r.Case, "$1 × $2 keys")
}

// Keys is a count of keys: 131072 is 128K.
func Keys(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%dM", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%dK", n>>10)
	}
	return fmt.Sprint(n)
}

func byLength(a, b bench.Row) int { return cmp.Compare(a.Len, b.Len) }
