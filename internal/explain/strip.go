package explain

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
)

// Bin is a run of positions in the strip of weights.
type Bin struct {
	Begin, End int    // keys
	Weight     Number // of all of them
}

// The strip's height and the text's shades are logarithmic: heads that put nine
// tenths of their weight on one key have a shape besides.
const (
	stripFloor = -6 // weights from 10^stripFloor on have a height
	levels     = 6  // shades, one a power of ten
)

// height is a weight's part of the strip's height, from 0 to 1.
func height(weight Number) float64 {
	h := 1 - math.Log10(float64(weight))/stripFloor
	if !(h > 0) { // NaN has no height
		return 0
	}
	return min(h, 1)
}

// Level is the shade of a weight: 0 for less than a millionth, then one a power of
// ten, 6 for a tenth and more.
func Level(weight Number) int { return min(int(math.Ceil(levels*height(weight))), levels) }

// Token is a piece of text under its weight.
type Token struct {
	Text  string
	Level int
	Rank  int // among the most weighted, from 1; 0 for none
}

// Phrase is the text around a key.
type Phrase struct {
	Pos           int
	Before, After string
	Text          string
	Weight        Number
}

// How many characters of a token, and of other texts, are shown.
const (
	longestToken = 48
	longestLine  = 240
)

// Printable replaces what a display would obey instead of showing, and cuts what is
// no token's length.
func Printable(s string) string { return printable(s, longestToken) }

func line(s string) string { return printable(s, longestLine) }

func printable(s string, longest int) string {
	var b strings.Builder
	n := 0
	for _, r := range s {
		if n++; n > longest {
			b.WriteRune('…')
			break
		}
		b.WriteRune(Showable(r))
	}
	return b.String()
}

// Showable replaces what a display would obey instead of showing.
func Showable(r rune) rune {
	switch {
	case r == '\n':
		return '⏎'
	case r == '\t':
		return '⇥'
	case !unicode.IsPrint(r):
		return '�'
	}
	return r
}

// Bins cuts n positions into at most most even runs; the first have a key more.
func Bins(begin, end, most int) []Bin {
	n := min(end-begin, most)
	if n <= 0 {
		return nil
	}
	bins := make([]Bin, n)
	for i := range bins {
		bins[i] = Bin{Begin: Border(begin, end, n, i), End: Border(begin, end, n, i+1)}
	}
	return bins
}

// Border is where the i-th of n even runs begins: with t positions, the first t mod n
// have ⌈t/n⌉, the others ⌊t/n⌋.
func Border(begin, end, n, i int) int {
	t := end - begin
	return begin + i*(t/n) + min(i, t%n)
}

// KeyRange names the keys [begin, end).
func KeyRange(begin, end int) string {
	if end-begin == 1 {
		return strconv.Itoa(begin)
	}
	return fmt.Sprintf("%d–%d", begin, end-1)
}
