package jinja

import (
	"strings"
	"unicode"
)

// method returns the method, or the field of a loop, that v has by this name.
func method(v any, name string) (any, bool) {
	switch v := v.(type) {
	case position:
		return v.field(name)
	case string:
		if m, ok := stringMethods[name]; ok {
			return function(func(s *state, a arguments) any { s.spend(len(v)); return m(s, v, a) }), true
		}
	case *dict:
		if m, ok := dictMethods[name]; ok {
			return function(func(s *state, a arguments) any { return m(s, v, a) }), true
		}
	}
	return nil, false
}

var stringMethods = map[string]func(s *state, v string, a arguments) any{
	"strip":      func(s *state, v string, a arguments) any { return strip(s, v, a, true, true) },
	"lstrip":     func(s *state, v string, a arguments) any { return strip(s, v, a, true, false) },
	"rstrip":     func(s *state, v string, a arguments) any { return strip(s, v, a, false, true) },
	"upper":      func(s *state, v string, _ arguments) any { return s.made(strings.ToUpper(v)) },
	"lower":      func(s *state, v string, _ arguments) any { return s.made(strings.ToLower(v)) },
	"title":      func(s *state, v string, _ arguments) any { return s.made(title(v)) },
	"capitalize": func(s *state, v string, _ arguments) any { return s.made(capitalize(v)) },
	"startswith": func(s *state, v string, a arguments) any { return affix(s, v, a, strings.HasPrefix) },
	"endswith":   func(s *state, v string, a arguments) any { return affix(s, v, a, strings.HasSuffix) },
	"split":      func(s *state, v string, a arguments) any { return split(s, v, a, false) },
	"rsplit":     func(s *state, v string, a arguments) any { return split(s, v, a, true) },
	"splitlines": func(s *state, v string, _ arguments) any {
		return s.strings(strings.Split(strings.TrimSuffix(v, "\n"), "\n"))
	},
	"replace": replaceText,
	"find": func(s *state, v string, a arguments) any {
		i := strings.Index(v, a.text(s, 0, "find"))
		if i < 0 {
			return int64(-1)
		}
		return int64(len([]rune(v[:i])))
	},
	"format": format,
	"count": func(s *state, v string, a arguments) any {
		return int64(strings.Count(v, a.text(s, 0, "count")))
	},
	"join": func(s *state, v string, a arguments) any { return s.join(s.items(a.at(s, 0, "join")), v) },
	"isdigit": func(_ *state, v string, _ arguments) any {
		return v != "" && strings.IndexFunc(v, func(r rune) bool { return !unicode.IsDigit(r) }) < 0
	},
}

var dictMethods = map[string]func(s *state, v *dict, a arguments) any{
	"items": func(s *state, v *dict, _ arguments) any { return s.pairs(v) },
	"keys":  func(s *state, v *dict, _ arguments) any { return s.items(v) },
	"values": func(s *state, v *dict, _ arguments) any {
		out := s.list(len(v.keys))
		for _, key := range v.keys {
			out = append(out, v.values[key])
		}
		return out
	},
	"get": func(s *state, v *dict, a arguments) any {
		if x, found := v.get(a.at(s, 0, "get")); found {
			return x
		}
		return a.get(1, "default", nil)
	},
}

// pairs returns the keys of a mapping with their values.
func (s *state) pairs(v *dict) []any {
	out := s.list(3 * len(v.keys))
	for _, key := range v.keys {
		out = append(out, []any{key, v.values[key]})
	}
	return out
}

// made charges for a string that has been made.
func (s *state) made(text string) string {
	s.spend(len(text))
	return text
}

// strings charges for a list of strings that has been made.
func (s *state) strings(parts []string) []any {
	out := s.list(2 * len(parts))
	for _, part := range parts {
		out = append(out, part)
	}
	return out
}

func (s *state) join(items []any, between string) string {
	var out strings.Builder
	for i, item := range items {
		if i > 0 {
			out.WriteString(s.made(between))
		}
		out.WriteString(s.made(s.display(item)))
	}
	return out.String()
}

func strip(s *state, v string, a arguments, left, right bool) any {
	in := isSpace
	if chars, ok := a.get(0, "chars", nil).(string); ok {
		s.spend(len(v) * len(chars))
		in = func(r rune) bool { return strings.ContainsRune(chars, r) }
	}
	if left {
		v = strings.TrimLeftFunc(v, in)
	}
	if right {
		v = strings.TrimRightFunc(v, in)
	}
	return v
}

func affix(s *state, v string, a arguments, has func(s, affix string) bool) any {
	if several, ok := a.at(s, 0, "startswith or endswith").([]any); ok {
		for _, x := range several {
			if text, ok := x.(string); ok && has(v, text) {
				return true
			}
		}
		return false
	}
	return has(v, a.text(s, 0, "startswith or endswith"))
}

// split is split and rsplit: at white space, or at a separator, at most so
// many times.
func split(s *state, v string, a arguments, fromRight bool) any {
	most, ok := a.get(1, "maxsplit", int64(-1)).(int64)
	separator := a.get(0, "sep", nil)
	if separator == nil {
		if most >= 0 {
			s.fail("split at white space with a limit is not built")
		}
		return s.strings(strings.FieldsFunc(v, isSpace))
	}
	sep, isText := separator.(string)
	if !ok || !isText || sep == "" {
		s.fail("split by %s, want a string that is not empty", typeName(separator))
	}
	s.spend(16 * strings.Count(v, sep))
	parts := strings.Split(v, sep)
	if over := len(parts) - 1 - int(most); most >= 0 && over > 0 {
		if fromRight {
			parts = append([]string{strings.Join(parts[:over+1], sep)}, parts[over+1:]...)
		} else {
			parts = append(parts[:most:most], strings.Join(parts[most:], sep))
		}
	}
	return s.strings(parts)
}

func replaceText(s *state, v string, a arguments) any {
	from, to := a.text(s, 0, "replace"), a.text(s, 1, "replace")
	most, ok := a.get(2, "count", int64(-1)).(int64)
	if !ok {
		s.fail("replace: a count that is no integer")
	}
	times := strings.Count(v, from)
	if most >= 0 {
		times = min(times, int(min(most, int64(times))))
	}
	s.spend(len(v) + times*len(to))
	return strings.Replace(v, from, to, int(most))
}

// format puts arguments in the places of {}. No other form is built.
func format(s *state, v string, a arguments) any {
	parts := strings.Split(v, "{}")
	if strings.ContainsAny(strings.Join(parts, ""), "{}") || len(parts)-1 > len(a.list) || a.named != nil {
		s.fail("format of %q with %d arguments, want {} alone, and as many", v, len(a.list))
	}
	var out strings.Builder
	for i, part := range parts {
		out.WriteString(s.made(part))
		if i < len(parts)-1 {
			out.WriteString(s.made(s.display(a.list[i])))
		}
	}
	return out.String()
}

func capitalize(v string) string {
	r := []rune(strings.ToLower(v))
	if len(r) > 0 {
		r[0] = unicode.ToUpper(r[0])
	}
	return string(r)
}

func title(v string) string {
	inside := false
	return strings.Map(func(r rune) rune {
		was := inside
		if inside = unicode.IsLetter(r); was {
			return unicode.ToLower(r)
		}
		return unicode.ToUpper(r)
	}, v)
}
