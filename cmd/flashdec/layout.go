package main

import (
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
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

// duration is a time in the unit that keeps it short.
func duration(seconds float64) string {
	switch {
	case seconds >= 1:
		return fmt.Sprintf("%.2f s", seconds)
	case seconds >= 1e-3:
		return fmt.Sprintf("%.2f ms", seconds*1e3)
	}
	return fmt.Sprintf("%.0f µs", seconds*1e6)
}
