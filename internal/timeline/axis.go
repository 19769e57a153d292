package timeline

import (
	"fmt"
	"math"
	"strconv"
)

// units are the units of time, in nanoseconds, the longest first.
var units = [...]struct {
	name string
	size float64
}{{"s", 1e9}, {"ms", 1e6}, {"µs", 1e3}, {"ns", 1}}

// unitFor is the longest unit of which a time has one.
func unitFor(ns float64) (name string, size float64) {
	for _, u := range units {
		if ns >= u.size {
			return u.name, u.size
		}
	}
	return "ns", 1
}

// Duration is a time of so many nanoseconds in three digits, with its unit.
func Duration(ns int64) string {
	name, size := unitFor(float64(ns))
	x := float64(ns) / size
	digits := 2 - int(math.Floor(math.Log10(max(x, 1))))
	return fmt.Sprintf("%s %s", strconv.FormatFloat(x, 'f', max(digits, 0), 64), name)
}

// axis is a scale of time from 0 to span, in nanoseconds, over width pixels
// from left on.
type axis struct {
	left, width float64
	span        int64
}

// x is where a time stands.
func (a *axis) x(ns int64) float64 {
	return a.left + a.width*float64(ns)/float64(max(a.span, 1))
}

// tick is a labelled time.
type tick struct {
	at    int64
	label string
}

// ticks are round times from 0 on, at most about eight, and their unit.
func (a *axis) ticks() (list []tick, unit string) {
	const most = 8
	unit, size := unitFor(float64(a.span))
	step := roundUp(float64(max(a.span, 1)) / most)
	for i := 0; float64(i)*step <= float64(a.span); i++ {
		at := float64(i) * step
		list = append(list, tick{int64(at), strconv.FormatFloat(at/size, 'g', 6, 64)})
	}
	return list, unit
}

// roundUp is the next of 1, 2, 5, 10, 20, …
func roundUp(x float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(max(x, 1))))
	for _, digit := range [...]float64{1, 2, 5} {
		if digit*power >= x {
			return digit * power
		}
	}
	return 10 * power
}
