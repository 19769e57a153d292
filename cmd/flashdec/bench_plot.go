package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flashdec/flashdec/internal/bench"
	"github.com/flashdec/flashdec/internal/chart"
	"github.com/flashdec/flashdec/internal/whole"
)

// plotFormat is the form that a picture's name asks for.
func plotFormat(path string) string {
	return strings.ToLower(strings.TrimPrefix(filepath.Ext(path), "."))
}

// checkPlot refuses before the work what cannot be drawn to.
func checkPlot(path string) error {
	if path != "" && !slices.Contains(chart.Formats, plotFormat(path)) {
		return fmt.Errorf("--plot is %q, want a name that ends in .svg or .png", path)
	}
	return nil
}

// drawBench draws the rows, a panel a suite and number of threads.
func drawBench(path string, rows []bench.Row) error {
	return whole.Write(path, func(w io.Writer) error { return chart.Write(w, plotFormat(path), rows) })
}
