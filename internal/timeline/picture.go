package timeline

import (
	"fmt"
	"io"
	"math"
	"strings"
)

// Lengths in pixels.
const (
	pageWidth = 1000.0
	margin    = 24.0
	gutter    = 76.0 // of the lanes' names
	plotLeft  = margin + gutter
	plotWidth = pageWidth - plotLeft - margin
	lineHigh  = 18.0
	// letter is the mean width of a letter of 12 pixels, with room to spare.
	letter = 6.4
)

// Letters of a line.
const (
	titleLetters = 110
	noteLetters  = 148
)

// enlargeFrom is how many times longer than a run the axis must be for the run
// to be drawn once more, enlarged.
const enlargeFrom = 2.5

// Picture is runs of the same step on one axis of time, the first on top.
type Picture struct {
	Title string
	Notes []string // lines below the title
	Lane  string   // what a processor is: "worker", "SM"
	Runs  []Run    // at least one
}

// WriteSVG writes the picture. It needs neither script nor network, follows the
// reader's choice of light or dark, and tells each item's figures to a pointer
// that rests on it.
func (p *Picture) WriteSVG(w io.Writer) error {
	body := &svg{}
	height := p.draw(body)
	page := &svg{}
	size := fmt.Sprintf("0 0 %s %s", pixels(pageWidth), pixels(height))
	page.open("svg", attr{"xmlns", "http://www.w3.org/2000/svg"}, attr{"viewBox", size},
		attr{"width", pageWidth}, attr{"height", height}, attr{"role", "img"}, attr{"aria-labelledby", "title desc"})
	page.open("title", attr{"id", "title"})
	page.escape(p.Title)
	page.close("title")
	page.open("desc", attr{"id", "desc"})
	page.escape(p.inWords())
	page.close("desc")
	page.open("style")
	page.b.WriteString(styleSheet())
	page.close("style")
	page.rect("paper", 0, 0, pageWidth, height, "")
	page.b.Write(body.b.Bytes())
	page.close("svg")
	_, err := w.Write(page.b.Bytes())
	return err
}

// draw draws everything and returns how high it is.
func (p *Picture) draw(s *svg) float64 {
	y := p.header(s, margin)
	shared := axis{left: plotLeft, width: plotWidth}
	for i := range p.Runs {
		shared.span = max(shared.span, p.Runs[i].Trace.End)
	}
	for i := range p.Runs {
		y = p.panel(s, &p.Runs[i], &shared, p.Runs[i].Name, y+2*lineHigh)
	}
	y = shared.draw(s, y+6)
	if last := &p.Runs[len(p.Runs)-1]; p.enlarges(last, &shared) {
		own := axis{left: plotLeft, width: plotWidth, span: last.Trace.End}
		name := fmt.Sprintf("%s, drawn %.1f times as wide", last.Name, float64(shared.span)/float64(own.span))
		y = p.panel(s, last, &own, name, y+2.5*lineHigh)
		y = own.draw(s, y+6)
	}
	return y + margin
}

// enlarges reports whether a run is too narrow to be seen on the shared axis.
func (p *Picture) enlarges(r *Run, shared *axis) bool {
	return len(p.Runs) > 1 && r.Trace.End > 0 && float64(shared.span) > enlargeFrom*float64(r.Trace.End)
}

// header writes the title, the notes and the legend, from y on.
func (p *Picture) header(s *svg, y float64) float64 {
	for _, line := range wrap(p.Title, titleLetters) {
		y += lineHigh
		s.text("title", margin, y, "start", line)
	}
	for _, note := range p.Notes {
		for _, line := range wrap(note, noteLetters) {
			y += lineHigh
			s.text("faint", margin, y, "start", line)
		}
	}
	return drawLegend(s, legend(&p.Runs[0]), y+lineHigh)
}

// drawLegend writes the entries from left to right, in as many lines as they take.
func drawLegend(s *svg, keys []key, y float64) float64 {
	const swatch, space = 12.0, 18.0
	x := margin
	for _, k := range keys {
		width := swatch + 6 + letter*float64(len([]rune(k.label)))
		if x > margin && x+width > pageWidth-margin {
			x, y = margin, y+lineHigh
		}
		s.rect(k.class, x, y, swatch, swatch, "")
		s.text("", x+swatch+6, y+swatch-2, "start", k.label)
		x += width + space
	}
	return y + swatch
}

// draw writes the ticks and the unit of an axis below lanes that end at y.
func (a *axis) draw(s *svg, y float64) float64 {
	ticks, unit := a.ticks()
	s.line("grid", a.left, y, a.left+a.width, y)
	for _, t := range ticks {
		s.line("grid", a.x(t.at), y, a.x(t.at), y+5)
		s.text("faint", a.x(t.at), y+lineHigh, "middle", t.label)
	}
	y += 2 * lineHigh
	s.text("faint", a.left+a.width/2, y, "middle", unit+" since the decode began")
	return y
}

// inWords is the picture for those who do not see it.
func (p *Picture) inWords() string {
	var b strings.Builder
	for i := range p.Runs {
		r := &p.Runs[i]
		fmt.Fprintf(&b, "%s: %s. ", r.Name, p.figures(r))
	}
	return strings.TrimSpace(b.String())
}

// figures is what a run comes to, in a line.
func (p *Picture) figures(r *Run) string {
	sum := r.Summary()
	merges := 0
	for _, p := range sum.Processors {
		merges += p.Merges
	}
	text := fmt.Sprintf("%s; %s busy %s of the time", Duration(r.Trace.End), count(len(sum.Processors), p.Lane), Percent(sum.Busy))
	text += "; " + count(len(r.Plan.Items), "item")
	if merges > 0 {
		text += ", " + count(merges, "merge")
	}
	return text
}

// Percent is a share of one in per cent, in three digits at most.
func Percent(x float64) string {
	if x > 0.9995 {
		return "100%"
	}
	digits := 1 - int(math.Floor(math.Log10(max(100*x, 0.1)))/2)
	return fmt.Sprintf("%.*f%%", max(digits, 0), 100*x)
}

// wrap breaks text into lines of so many letters, at blanks.
func wrap(text string, letters int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len([]rune(line))+1+len([]rune(word)) > letters {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return append(lines, line)
}
