package jinja

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// jsonStyle is how tojson writes: as Python's json.dumps does with
// ensure_ascii=False.
type jsonStyle struct {
	indent   string // nothing where all is on one line
	comma    string
	colon    string
	sortKeys bool
}

func toJSON(s *state, v any, a arguments) any {
	style := jsonStyle{comma: ", ", colon: ": ", sortKeys: truth(a.get(3, "sort_keys", false))}
	if width, ok := a.get(0, "indent", nil).(int64); ok {
		style.indent, style.comma = s.repeat(" ", width), ","
	}
	if separators, ok := a.get(2, "separators", nil).([]any); ok && len(separators) == 2 {
		style.comma, style.colon = s.display(separators[0]), s.display(separators[1])
	}
	var out strings.Builder
	s.json(&out, v, style, 0)
	return out.String()
}

func (s *state) json(out *strings.Builder, v any, style jsonStyle, depth int) {
	s.spend(8)
	if depth > maxDepth {
		s.fail("values more than %d deep", maxDepth)
	}
	switch v := v.(type) {
	case nil:
		out.WriteString("null")
	case bool:
		out.WriteString(strconv.FormatBool(v))
	case int64:
		out.WriteString(strconv.FormatInt(v, 10))
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			s.fail("%v has no JSON", v)
		}
		out.WriteString(displayFloat(v))
	case string:
		s.spend(6 * len(v))
		jsonString(out, v)
	case []any:
		s.jsonList(out, "[]", len(v), style, depth, func(i int) { s.json(out, v[i], style, depth+1) })
	case *dict:
		keys := v.keys
		if style.sortKeys {
			keys = slices.Clone(keys)
			s.spend(20 * len(keys))
			slices.SortFunc(keys, func(a, b any) int { return strings.Compare(s.display(a), s.display(b)) })
		}
		s.jsonList(out, "{}", len(keys), style, depth, func(i int) {
			jsonString(out, jsonKey(s, keys[i]))
			out.WriteString(style.colon)
			s.json(out, v.values[keys[i]], style, depth+1)
		})
	default:
		s.fail("%s has no JSON", typeName(v))
	}
}

// jsonKey is a key as JSON writes it, always a string.
func jsonKey(s *state, key any) string {
	if b, ok := key.(bool); ok {
		return strconv.FormatBool(b)
	}
	return s.display(key)
}

// jsonList writes n items between brackets.
func (s *state) jsonList(out *strings.Builder, brackets string, n int, style jsonStyle, depth int, item func(i int)) {
	out.WriteByte(brackets[0])
	for i := range n {
		if i > 0 {
			out.WriteString(s.made(style.comma))
		}
		s.newline(out, style, depth+1)
		item(i)
	}
	if n > 0 {
		s.newline(out, style, depth)
	}
	out.WriteByte(brackets[1])
}

func (s *state) newline(out *strings.Builder, style jsonStyle, depth int) {
	if style.indent != "" {
		s.spend(1 + depth*len(style.indent))
		out.WriteByte('\n')
		out.WriteString(strings.Repeat(style.indent, depth))
	}
}

func jsonString(out *strings.Builder, v string) {
	out.WriteByte('"')
	for _, r := range v {
		switch {
		case r == '"' || r == '\\':
			out.WriteByte('\\')
			out.WriteRune(r)
		case r == '\n':
			out.WriteString(`\n`)
		case r == '\r':
			out.WriteString(`\r`)
		case r == '\t':
			out.WriteString(`\t`)
		case r == '\b':
			out.WriteString(`\b`)
		case r == '\f':
			out.WriteString(`\f`)
		case r < 0x20:
			fmt.Fprintf(out, `\u%04x`, r)
		default:
			out.WriteRune(r)
		}
	}
	out.WriteByte('"')
}
