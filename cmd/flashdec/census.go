package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/internal/simd"
)

// census counts what no distance tells of: the elements of a result, out and lse, that
// are no finite numbers in it or in its reference, and the rows that they are in. An
// LSE of −Inf in both is as good as a finite one: it is that of no keys.
type census struct {
	nonFinite int // elements that are NaN or infinite in one of the two, and not the same in the other
	lost      int // of these, those that are finite in the reference
	outs      int // elements of out that are finite in both: those that a distance is of
	lses      int // and of lse
	rows      int // one query of one head each
	nanRows   int // of the result, those that hold a NaN
	infRows   int // and those that hold an infinity, and no NaN
}

// censusOf counts a result, of which out or lse may be nil. nonFinite is left to who compares.
func censusOf(ref *attn.Reference, out, lse []float32) census {
	c := census{rows: len(ref.AbsScore)}
	dim := len(out) / max(c.rows, 1)
	for row := range c.rows {
		var nan, inf bool
		for i := row * dim; i < (row+1)*dim; i++ {
			x := float64(out[i])
			c.outs += c.pair(x, ref.Out[i])
			nan, inf = nan || math.IsNaN(x), inf || math.IsInf(x, 0)
		}
		if lse != nil {
			x := float64(lse[row])
			if c.lses += c.pair(x, ref.LSE[row]); x == ref.LSE[row] && math.IsInf(x, -1) {
				c.lses++
			}
			nan, inf = nan || math.IsNaN(x), inf || math.IsInf(x, 1)
		}
		switch {
		case nan:
			c.nanRows++
		case inf:
			c.infRows++
		}
	}
	return c
}

// pair is 1 where both numbers are finite, and counts a lost one.
func (c *census) pair(got, want float64) int {
	switch {
	case simd.Finite(got) && simd.Finite(want):
		return 1
	case simd.Finite(want):
		c.lost++
	}
	return 0
}

// plus is the census of both of two parts.
func (c census) plus(d census) census {
	return census{c.nonFinite + d.nonFinite, c.lost + d.lost, c.outs + d.outs, c.lses + d.lses, c.rows + d.rows, c.nanRows + d.nanRows, c.infRows + d.infRows}
}

// most is the larger of each number of two results of one part.
func (c census) most(d census) census {
	return census{
		max(c.nonFinite, d.nonFinite), max(c.lost, d.lost), max(c.outs, d.outs), max(c.lses, d.lses),
		max(c.rows, d.rows), max(c.nanRows, d.nanRows), max(c.infRows, d.infRows),
	}
}

// rowWords tells of rows that are no finite numbers, "" where all are.
func (c census) rowWords() string {
	rows := count(c.rows, "row")
	switch {
	case c.nanRows > 0 && c.infRows > 0:
		return fmt.Sprintf("NaN in %d of %s and infinities in %d", c.nanRows, rows, c.infRows)
	case c.nanRows > 0:
		return fmt.Sprintf("NaN in %d of %s", c.nanRows, rows)
	case c.infRows > 0:
		return fmt.Sprintf("infinities in %d of %s", c.infRows, rows)
	}
	return ""
}

// lossWords tells what rounding made of elements that no distance is of, "" where nothing.
func (c census) lossWords() string {
	var words []string
	if c.lost > 0 {
		are := " are"
		if c.lost == 1 {
			are = " is"
		}
		words = append(words, count(c.lost, "element")+are+" no longer finite")
	}
	if other := c.nonFinite - c.lost; other > 0 {
		words = append(words, oneSided(other))
	}
	return strings.Join(words, ", ")
}

// oneSided tells of elements that are not finite, and not the same in a reference.
func oneSided(elements int) string {
	return count(elements, "element") + " NaN or infinite on one side only"
}
