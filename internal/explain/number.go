package explain

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// Number is a float64 that JSON can carry whatever it is: NaN and the infinities
// become strings.
type Number float64

// MarshalJSON writes a number, or "NaN", "+Inf" or "-Inf".
func (x Number) MarshalJSON() ([]byte, error) {
	f := float64(x)
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return json.Marshal(strconv.FormatFloat(f, 'g', -1, 64))
	}
	return json.Marshal(f)
}

// Numbers are Number's slices.
func Numbers(x []float64) []Number {
	n := make([]Number, len(x))
	for i, v := range x {
		n[i] = Number(v)
	}
	return n
}

// The page's script writes numbers by the same rules: see page.js.
const (
	decimals = 4
	wide     = 1e6  // from here on, decimals take more room than they are worth
	narrow   = 1e-3 // below it they show too little
)

// decimal is a number as tables show it.
func decimal(x Number) string {
	f := float64(x)
	switch a := math.Abs(f); {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 0):
		return sign(f) + "∞"
	case a >= wide || a > 0 && a < narrow:
		return scientific(f, decimals-1)
	}
	return minus(strconv.FormatFloat(f, 'f', decimals, 64))
}

// scientific is "1.23e−4": without a sign or zeros that the exponent does not need.
func scientific(f float64, digits int) string {
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'e', digits, 64), "e")
	n, _ := strconv.Atoi(exponent) // FormatFloat wrote it
	return minus(mantissa + "e" + strconv.Itoa(n))
}

func minus(s string) string { return strings.ReplaceAll(s, "-", "−") }

func sign(f float64) string {
	if f < 0 {
		return "−"
	}
	return ""
}

// percent is a share as tables show it.
func percent(x Number) string {
	f := 100 * float64(x)
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return decimal(x)
	case f > 0 && f < narrow:
		return scientific(f, 0) + " %"
	case f > 0 && f < 0.05: // one decimal would show nothing
		return strconv.FormatFloat(f, 'f', 3, 64) + " %"
	}
	return strconv.FormatFloat(f, 'f', 1, 64) + " %"
}

// precise is a number beside which another is to be held.
func precise(x Number) string {
	if f := float64(x); !math.IsNaN(f) && !math.IsInf(f, 0) {
		return minus(strconv.FormatFloat(f, 'g', 12, 64))
	}
	return decimal(x)
}

// vectorHead is how many elements of a vector tables show.
const vectorHead = 4

// vector is the first elements of a vector.
func vector(x []Number) string {
	words := make([]string, 0, vectorHead+1)
	for i, v := range x {
		if i == vectorHead {
			words = append(words, "…")
			break
		}
		word := decimal(v)
		if !strings.HasPrefix(word, "−") {
			word = " " + word // under signs, digits stand below each other
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// tiny is a difference, zero or in two digits.
func tiny(x Number) string {
	f := float64(x)
	if f == 0 || math.IsNaN(f) || math.IsInf(f, 0) {
		return strings.TrimSuffix(decimal(x), ".0000")
	}
	return scientific(f, 1)
}
