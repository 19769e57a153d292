package jinja

import (
	"math"
	"strings"
)

// operate is a binary operator.
func (s *state) operate(operator string, a, b any) any {
	switch operator {
	case "~":
		return s.concat(s.display(a), s.display(b))
	case "+":
		if x, ok := a.(string); ok {
			if y, ok := b.(string); ok {
				return s.concat(x, y)
			}
		}
		if x, ok := a.([]any); ok {
			if y, ok := b.([]any); ok {
				return append(append(s.list(len(x)+len(y)), x...), y...)
			}
		}
	case "*":
		if x, ok := a.(string); ok {
			if n, ok := b.(int64); ok {
				return s.repeat(x, n)
			}
		}
	}
	i, x, int1, ok1 := toNumber(a)
	j, y, int2, ok2 := toNumber(b)
	if !ok1 || !ok2 {
		s.fail("%s %s %s is not built", typeName(a), operator, typeName(b))
	}
	if int1 && int2 && operator != "/" && (operator != "**" || j >= 0) {
		return s.integers(operator, i, j)
	}
	return s.floats(operator, x, y)
}

func (s *state) concat(a, b string) string {
	s.spend(len(a) + len(b))
	return a + b
}

func (s *state) repeat(x string, n int64) string {
	n = max(n, 0)
	if len(x) > 0 && n > int64(math.MaxInt32/len(x)) {
		n = int64(math.MaxInt32 / len(x)) // more than any budget
	}
	s.spend(len(x) * int(n))
	return strings.Repeat(x, int(n))
}

// integers divides as Python does, towards −∞.
func (s *state) integers(operator string, i, j int64) any {
	switch operator {
	case "+":
		return i + j
	case "-":
		return i - j
	case "*":
		return i * j
	case "**":
		return power(i, j)
	}
	if j == 0 {
		s.fail("a division by zero")
	}
	q, r := i/j, i%j
	if r != 0 && (r < 0) != (j < 0) {
		q, r = q-1, r+j
	}
	if operator == "//" {
		return q
	}
	return r
}

// power is i**j for j ≥ 0; it wraps around where Python's integers would grow.
func power(i, j int64) int64 {
	result := int64(1)
	for ; j > 0; j >>= 1 {
		if j&1 == 1 {
			result *= i
		}
		i *= i
	}
	return result
}

func (s *state) floats(operator string, x, y float64) any {
	if y == 0 && (operator == "/" || operator == "//" || operator == "%") {
		s.fail("a division by zero")
	}
	switch operator {
	case "+":
		return x + y
	case "-":
		return x - y
	case "*":
		return x * y
	case "/":
		return x / y
	case "//":
		return math.Floor(x / y)
	case "%":
		return x - y*math.Floor(x/y)
	}
	return math.Pow(x, y)
}

// contains reports whether x is in v.
func (s *state) contains(v, x any) bool {
	switch v := v.(type) {
	case string:
		text, ok := x.(string)
		if !ok {
			s.fail("%s in a string", typeName(x))
		}
		s.spend(len(v))
		return strings.Contains(v, text)
	case *dict:
		_, found := v.get(x)
		return found
	case []any:
		s.spend(len(v))
		for _, y := range v {
			if s.equal(x, y) {
				return true
			}
		}
		return false
	case undefined:
		return false
	}
	s.fail("%s holds nothing", typeName(v))
	return false
}

// slice is v[i:j:k] of a list or a string.
func (s *state) slice(v any, bounds [3]expression) any {
	var items []any
	_, isText := v.(string)
	if list, ok := v.([]any); ok || isText {
		if items = list; isText {
			items = s.items(v)
		}
	} else {
		s.fail("%s cannot be sliced", typeName(v))
	}
	step := s.bound(bounds[2], 1)
	if step == 0 {
		s.fail("a slice with a step of 0")
	}
	n := int64(len(items))
	lo, hi := int64(0), n
	if step < 0 {
		lo, hi = n-1, -1
	}
	from, to := lo, hi
	if bounds[0] != nil {
		from = clampIndex(s.bound(bounds[0], lo), n, step)
	}
	if bounds[1] != nil {
		to = clampIndex(s.bound(bounds[1], hi), n, step)
	}
	out := s.list(len(items))
	for i := from; i >= 0 && i < n && (step > 0 && i < to || step < 0 && i > to); i += step {
		out = append(out, items[i])
	}
	if !isText {
		return out
	}
	var text strings.Builder
	for _, x := range out {
		text.WriteString(x.(string))
	}
	return text.String()
}

// bound is a part of a slice, otherwise if it is not there or none.
func (s *state) bound(e expression, otherwise int64) int64 {
	if e == nil {
		return otherwise
	}
	switch v := e(s).(type) {
	case nil:
		return otherwise
	case int64:
		return v
	default:
		s.fail("a slice by %s", typeName(v))
		return 0
	}
}

// clampIndex puts an index, which may count from the end, into the list, or
// just outside of it on the side where the slice ends.
func clampIndex(i, n, step int64) int64 {
	if i < 0 {
		i += n
	}
	if step < 0 {
		return min(max(i, -1), n-1)
	}
	return min(max(i, 0), n)
}
