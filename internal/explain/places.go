package explain

import (
	"fmt"
	"math"
	"strconv"
)

// FirstKey and LastKey number the ends of the strip.
func (p *Page) FirstKey() int { return p.Strip[0].Begin + p.Data.First }

// LastKey is the last position's number.
func (p *Page) LastKey() int { return p.Strip[len(p.Strip)-1].End - 1 + p.Data.First }

// BinKeys is how many keys a bar of the strip has, at most.
func (p *Page) BinKeys() int { return p.Strip[0].End - p.Strip[0].Begin }

// PieceKeys is how many keys a piece has, at most.
func (p *Page) PieceKeys() int {
	most := 0
	for _, piece := range p.Data.Pieces {
		most = max(most, piece.End-piece.Begin)
	}
	return most
}

// Bar is a rectangle of the strip, which is 1000 wide and 100 high.
type Bar struct {
	X, Y, Width, Height string
	Level               int
}

// StripBars are the strip's bars, without those of no height.
func (p *Page) StripBars() []Bar {
	var bars []Bar
	begin := p.Strip[0].Begin
	unit := 1000 / float64(p.Strip[len(p.Strip)-1].End-begin)
	for _, b := range p.Strip {
		if h := 100 * height(b.Weight); h > 0 {
			bars = append(bars, Bar{
				X: place(float64(b.Begin-begin) * unit), Width: place(float64(b.End-b.Begin) * unit),
				Y: place(100 - h), Height: place(h), Level: Level(b.Weight),
			})
		}
	}
	return bars
}

func place(x float64) string { return strconv.FormatFloat(x, 'f', 2, 64) }

// BarWidth is the width of a share's bar, 100 for all.
func (k Key) BarWidth() string { return barWidth(k.Weight) }

// BarWidth is the width of a share's bar, 100 for all.
func (s Split) BarWidth() string { return barWidth(s.Weight) }

func barWidth(share Number) string {
	if f := 100 * float64(share); f > 0 && f <= 101 { // a weight is 1 but for rounding
		return place(f)
	}
	return "0"
}

// Comparison is a number of the result, computed two ways.
type Comparison struct {
	Name           string
	Merged, Direct string
	Difference     Number
}

// Compared are the LSE and the first elements of the result.
func (p *Page) Compared() []Comparison {
	d := &p.Data
	rows := []Comparison{compare("LSE", d.MergedLSE, d.DirectLSE)}
	for i, x := range d.Merged.O[:min(len(d.Merged.O), 2*vectorHead)] {
		rows = append(rows, compare(fmt.Sprintf("out %d", i+1), x, d.DirectOut[i]))
	}
	return rows
}

func compare(name string, merged, direct Number) Comparison {
	c := Comparison{name, precise(merged), precise(direct), 0}
	if merged != direct && !(merged != merged && direct != direct) { // two NaN are equal here
		c.Difference = Number(math.Abs(float64(merged - direct)))
	}
	return c
}
