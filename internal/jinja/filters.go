package jinja

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// filters are what may follow a bar. They are set when the program starts, as
// map and select use them themselves.
var filters map[string]func(s *state, v any, a arguments) any

func init() {
	filters = map[string]func(s *state, v any, a arguments) any{
		"abs":        absolute,
		"capitalize": textFilter("capitalize"),
		"count":      length,
		"d":          defaults,
		"default":    defaults,
		"dictsort":   dictsort,
		"first":      func(s *state, v any, _ arguments) any { return ends(s.items(v), 0) },
		"float":      toFloat,
		"indent":     indent,
		"int":        toInt,
		"items":      itemsOf,
		"join":       func(s *state, v any, a arguments) any { return s.join(s.items(v), s.display(a.get(0, "d", ""))) },
		"last":       func(s *state, v any, _ arguments) any { items := s.items(v); return ends(items, len(items)-1) },
		"length":     length,
		"list":       func(s *state, v any, _ arguments) any { return s.items(v) },
		"lower":      textFilter("lower"),
		"map":        mapped,
		"max":        func(s *state, v any, _ arguments) any { return extreme(s, s.items(v), false) },
		"min":        func(s *state, v any, _ arguments) any { return extreme(s, s.items(v), true) },
		"reject":     func(s *state, v any, a arguments) any { return chosen(s, v, a, false, false) },
		"rejectattr": func(s *state, v any, a arguments) any { return chosen(s, v, a, true, false) },
		"replace":    textFilter("replace"),
		"reverse":    reverse,
		"safe":       func(_ *state, v any, _ arguments) any { return v },
		"select":     func(s *state, v any, a arguments) any { return chosen(s, v, a, false, true) },
		"selectattr": func(s *state, v any, a arguments) any { return chosen(s, v, a, true, true) },
		"sort":       sorted,
		"string":     func(s *state, v any, _ arguments) any { return s.made(s.display(v)) },
		"title":      textFilter("title"),
		"tojson":     toJSON,
		"trim":       textFilter("strip"),
		"unique":     unique,
		"upper":      textFilter("upper"),
	}
}

// textFilter is a method of strings as a filter.
func textFilter(method string) func(s *state, v any, a arguments) any {
	return func(s *state, v any, a arguments) any {
		text := s.display(v)
		s.spend(len(text))
		return stringMethods[method](s, text, a)
	}
}

func length(s *state, v any, _ arguments) any {
	switch v := v.(type) {
	case string:
		s.spend(len(v))
		return int64(utf8.RuneCountInString(v))
	case []any:
		return int64(len(v))
	case *dict:
		return int64(len(v.keys))
	case undefined:
		return int64(0)
	}
	s.fail("%s has no length", typeName(v))
	return nil
}

func defaults(_ *state, v any, a arguments) any {
	_, missing := v.(undefined)
	if missing || truth(a.get(1, "boolean", false)) && !truth(v) {
		return a.get(0, "default_value", "")
	}
	return v
}

func ends(items []any, i int) any {
	if len(items) == 0 {
		return undefined{"the end of an empty list"}
	}
	return items[i]
}

func itemsOf(s *state, v any, _ arguments) any {
	switch v := v.(type) {
	case *dict:
		return s.pairs(v)
	case undefined:
		return []any{}
	}
	s.fail("items of %s", typeName(v))
	return nil
}

func reverse(s *state, v any, _ arguments) any {
	out := slices.Clone(s.items(v))
	slices.Reverse(out)
	if _, ok := v.(string); ok {
		return s.join(out, "")
	}
	return out
}

func unique(s *state, v any, _ arguments) any {
	var out []any
	for _, x := range s.items(v) {
		if !s.contains(out, x) {
			s.spend(16)
			out = append(out, x)
		}
	}
	return out
}

func sorted(s *state, v any, a arguments) any {
	out := slices.Clone(s.items(v))
	s.spend(20 * len(out))
	attribute := a.get(2, "attribute", nil)
	slices.SortStableFunc(out, func(x, y any) int {
		if attribute != nil {
			x, y = s.index(x, attribute), s.index(y, attribute)
		}
		switch {
		case s.less(x, y):
			return -1
		case s.less(y, x):
			return 1
		}
		return 0
	})
	if truth(a.get(0, "reverse", false)) {
		slices.Reverse(out)
	}
	return out
}

// extreme is the least or the greatest of items, the first of equals.
func extreme(s *state, items []any, least bool) any {
	best := ends(items, 0)
	for _, x := range items {
		s.spend(1)
		if least && s.less(x, best) || !least && s.less(best, x) {
			best = x
		}
	}
	return best
}

func dictsort(s *state, v any, _ arguments) any {
	d, ok := v.(*dict)
	if !ok {
		s.fail("dictsort of %s", typeName(v))
	}
	out := s.pairs(d)
	s.spend(20 * len(out))
	slices.SortStableFunc(out, func(x, y any) int {
		a, b := folded(x.([]any)[0]), folded(y.([]any)[0])
		switch {
		case s.less(a, b):
			return -1
		case s.less(b, a):
			return 1
		}
		return 0
	})
	return out
}

// folded is a key without regard to case.
func folded(v any) any {
	if text, ok := v.(string); ok {
		return strings.ToLower(text)
	}
	return v
}

// orNone is items, and nothing of none, which map and select pass over.
func (s *state) orNone(v any) []any {
	if v == nil {
		return nil
	}
	return s.items(v)
}

// mapped is map(attribute=…) and map("filter").
func mapped(s *state, v any, a arguments) any {
	items := s.orNone(v)
	out := s.list(len(items))
	attribute := a.get(len(a.list), "attribute", nil)
	for _, item := range items {
		s.spend(1)
		if attribute != nil {
			x := s.index(item, attribute)
			if _, missing := x.(undefined); missing {
				x = a.get(len(a.list), "default", x)
			}
			out = append(out, x)
			continue
		}
		called := a.text(s, 0, "map")
		f, ok := filters[called]
		if !ok {
			s.fail("filter %q is not built", called)
		}
		out = append(out, f(s, item, arguments{list: a.list[1:]}))
	}
	return out
}

// chosen is select, reject, selectattr and rejectattr.
func chosen(s *state, v any, a arguments, byAttribute, want bool) any {
	items := s.orNone(v)
	out := s.list(len(items))
	rest := a.list
	var attribute any
	if byAttribute {
		attribute, rest = a.at(s, 0, "selectattr"), rest[1:]
	}
	holds := func(_ *state, x any, _ arguments) bool { return truth(x) }
	if len(rest) > 0 {
		called, _ := rest[0].(string)
		f, ok := tests[called]
		if !ok {
			s.fail("test %q is not built", called)
		}
		holds, rest = f, rest[1:]
	}
	for _, item := range items {
		s.spend(1)
		x := item
		if byAttribute {
			x = s.index(item, attribute)
		}
		if holds(s, x, arguments{list: rest}) == want {
			out = append(out, item)
		}
	}
	return out
}

func indent(s *state, v any, a arguments) any {
	prefix := "    "
	switch width := a.get(0, "width", nil).(type) {
	case int64:
		prefix = s.repeat(" ", width)
	case string:
		prefix = width
	}
	lines := strings.Split(s.display(v), "\n")
	first, blank := truth(a.get(1, "first", false)), truth(a.get(2, "blank", false))
	for i := range lines {
		if (i > 0 || first) && (blank || i == 0 || strings.TrimSpace(lines[i]) != "") {
			s.spend(len(prefix) + len(lines[i]))
			lines[i] = prefix + lines[i]
		}
	}
	return s.made(strings.Join(lines, "\n"))
}

func toInt(s *state, v any, a arguments) any {
	if text, ok := v.(string); ok {
		if i, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64); err == nil {
			return i
		}
		if f, err := strconv.ParseFloat(strings.TrimSpace(text), 64); err == nil {
			v = f
		}
	}
	if i, f, isInt, ok := toNumber(v); ok && isInt {
		return i
	} else if ok && math.Abs(f) < 1<<62 {
		return int64(f)
	}
	return a.get(0, "default", int64(0))
}

func toFloat(_ *state, v any, a arguments) any {
	if text, ok := v.(string); ok {
		if f, err := strconv.ParseFloat(strings.TrimSpace(text), 64); err == nil {
			return f
		}
	}
	if _, f, _, ok := toNumber(v); ok {
		return f
	}
	return a.get(0, "default", 0.0)
}

func absolute(s *state, v any, _ arguments) any {
	if s.less(v, int64(0)) {
		return s.operate("-", int64(0), v)
	}
	return v
}
