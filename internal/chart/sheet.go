package chart

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"slices"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// newSheet is paper of a form, as wide as all pages.
func newSheet(format string, height vg.Length) (vg.CanvasWriterTo, error) {
	if !slices.Contains(Formats, format) {
		return nil, fmt.Errorf("chart: format %q, want one of %v", format, Formats)
	}
	if format == "svg" {
		return &svgSheet{Canvas: vgsvg.New(width, height)}, nil
	}
	return draw.NewFormattedCanvas(width, height, format)
}

// svgSheet writes SVG whose text takes the room that it was laid out for, whatever
// fonts its reader has.
type svgSheet struct {
	*vgsvg.Canvas
	widths []vg.Length // of each text, in order
}

func (s *svgSheet) FillString(f font.Face, at vg.Point, text string) {
	s.widths = append(s.widths, f.Width(text))
	s.Canvas.FillString(f, at, text)
}

var (
	svgText   = regexp.MustCompile(`<text `)
	svgFamily = regexp.MustCompile(`font-family:Liberation Sans;`)
)

// WriteTo implements io.WriterTo.
func (s *svgSheet) WriteTo(w io.Writer) (int64, error) {
	var text bytes.Buffer
	if _, err := s.Canvas.WriteTo(&text); err != nil {
		return 0, err
	}
	i := -1
	sized := svgText.ReplaceAllFunc(text.Bytes(), func(tag []byte) []byte {
		if i++; s.widths[i] <= 0 {
			return tag
		}
		return fmt.Appendf(nil, `<text textLength="%.2f" lengthAdjust="spacingAndGlyphs" `, s.widths[i].Points())
	})
	named := svgFamily.ReplaceAll(sized, []byte("font-family:'Liberation Sans',Arial,Helvetica,sans-serif;"))
	n, err := w.Write(named)
	return int64(n), err
}
