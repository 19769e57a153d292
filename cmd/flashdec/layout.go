package main

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/flashdec/flashdec/internal/explain"
)

// newTable is a table in the style of all reports: no frame, numbers to the right.
func newTable(columns ...any) table.Writer {
	t := table.NewWriter()
	style := table.StyleLight
	style.Options = table.Options{SeparateHeader: true}
	style.Format.Header = text.FormatDefault
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	t.SetStyle(style)
	t.AppendHeader(columns)
	return t
}

// render is a table's text, without the blanks that pad its last column.
func render(t table.Writer) string {
	lines := strings.Split(t.Render(), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	if len(lines) > 1 {
		// The rule under the header is as wide as the padded columns.
		lines[1] = strings.Repeat("─", max(0, len([]rune(lines[1]))-2))
	}
	return strings.Join(lines, "\n")
}

// row is the cells of a table's row.
func row(cells ...any) table.Row { return cells }

// count is "1 item", "2 items".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// byteCount is a size in the unit that keeps it short.
func byteCount(n int) string {
	const unit = 1000
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	x, suffixes := float64(n)/unit, "kMGTPE"
	i := 0
	for x >= unit && i < len(suffixes)-1 {
		x /= unit
		i++
	}
	return fmt.Sprintf("%.1f %cB", x, suffixes[i])
}

// share is a bar of the given width, filled to a share of it by eighths.
func share(x float64, width int) string {
	eighths := []rune(" ▏▎▍▌▋▊▉█")
	filled := int(x*float64(width)*8 + 0.5)
	filled = max(0, min(filled, width*8))
	bar := strings.Repeat("█", filled/8)
	if filled < width*8 {
		bar += string(eighths[filled%8]) + strings.Repeat(" ", width-filled/8-1)
	}
	return bar
}

// fold breaks text into lines of the report's width, the later ones indented.
func fold(s string, indent int) string { return wrapWords(strings.Fields(s), indent) }

// longestPiece is how many columns a token's text may take in a sentence. Pieces
// are a file's, and of any length.
const longestPiece = 32

// clip is the beginning of a text, as far as a column holds it.
func clip(s string, width int) string {
	return string(fit(forwards([]string{s}), width))
}

// fit is the first runes of a text that a column holds, as a terminal may be shown
// them. Marks and joiners have no width of their own: so that they do not go on
// forever, it takes no more than some for each column. Its time is that of what it
// takes, however long the text is.
func fit(runes iter.Seq[rune], width int) []rune {
	const aColumn = 4
	var taken []rune
	used := 0
	for r := range runes {
		r = explain.Showable(r)
		if used += text.RuneWidth(r); used > width || len(taken) == aColumn*width {
			break
		}
		taken = append(taken, r)
	}
	return taken
}

// forwards is the runes of texts from the first on.
func forwards(texts []string) iter.Seq[rune] {
	return func(yield func(rune) bool) {
		for _, s := range texts {
			for _, r := range s {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// backwards is the runes of texts from the last on.
func backwards(texts []string) iter.Seq[rune] {
	return func(yield func(rune) bool) {
		for _, s := range slices.Backward(texts) {
			for s != "" {
				r, size := utf8.DecodeLastRuneInString(s)
				if s = s[:len(s)-size]; !yield(r) {
					return
				}
			}
		}
	}
}
