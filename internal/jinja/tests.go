package jinja

// tests are what may follow "is".
var tests = map[string]func(s *state, v any, a arguments) bool{
	"defined":   func(_ *state, v any, _ arguments) bool { _, missing := v.(undefined); return !missing },
	"undefined": func(_ *state, v any, _ arguments) bool { _, missing := v.(undefined); return missing },
	"none":      func(_ *state, v any, _ arguments) bool { return v == nil },
	"true":      func(_ *state, v any, _ arguments) bool { return isBool(v, true) },
	"false":     func(_ *state, v any, _ arguments) bool { return isBool(v, false) },
	"boolean":   func(_ *state, v any, _ arguments) bool { _, ok := v.(bool); return ok },
	"string":    func(_ *state, v any, _ arguments) bool { _, ok := v.(string); return ok },
	"integer":   func(_ *state, v any, _ arguments) bool { _, ok := v.(int64); return ok },
	"float":     func(_ *state, v any, _ arguments) bool { _, ok := v.(float64); return ok },
	"number":    func(_ *state, v any, _ arguments) bool { _, _, _, ok := toNumber(v); return ok },
	"mapping":   func(_ *state, v any, _ arguments) bool { _, ok := v.(*dict); return ok },
	"callable":  func(_ *state, v any, _ arguments) bool { _, ok := v.(function); return ok },
	"iterable":  func(_ *state, v any, _ arguments) bool { return iterable(v) },
	"sequence":  func(_ *state, v any, _ arguments) bool { return iterable(v) },
	"odd":       func(s *state, v any, _ arguments) bool { return remainder(s, v, 2) == 1 },
	"even":      func(s *state, v any, _ arguments) bool { return remainder(s, v, 2) == 0 },
	"divisibleby": func(s *state, v any, a arguments) bool {
		n, ok := a.at(s, 0, "divisibleby").(int64)
		return ok && remainder(s, v, n) == 0
	},
	"in":      func(s *state, v any, a arguments) bool { return s.contains(a.at(s, 0, "in"), v) },
	"eq":      same,
	"equalto": same,
	"==":      same,
	"sameas":  same,
	"ne":      func(s *state, v any, a arguments) bool { return !same(s, v, a) },
	"lt":      func(s *state, v any, a arguments) bool { return s.less(v, a.at(s, 0, "lt")) },
	"gt":      func(s *state, v any, a arguments) bool { return s.less(a.at(s, 0, "gt"), v) },
	"lower":   func(s *state, v any, _ arguments) bool { return s.equal(v, textFilter("lower")(s, v, arguments{})) },
	"upper":   func(s *state, v any, _ arguments) bool { return s.equal(v, textFilter("upper")(s, v, arguments{})) },
	"startingwith": func(s *state, v any, a arguments) bool {
		return truth(s.call(s.field(v, "startswith"), a))
	},
}

func isBool(v any, want bool) bool { b, ok := v.(bool); return ok && b == want }

func iterable(v any) bool {
	switch v.(type) {
	case string, []any, *dict, undefined:
		return true
	}
	return false
}

func remainder(s *state, v any, n int64) int64 {
	i, _, isInt, ok := toNumber(v)
	if !ok || !isInt {
		s.fail("%s, want an integer", typeName(v))
	}
	r, _ := s.integers("%", i, n).(int64)
	return r
}

func same(s *state, v any, a arguments) bool { return s.equal(v, a.at(s, 0, "equalto")) }
