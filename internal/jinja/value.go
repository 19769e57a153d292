package jinja

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Values are nil (None), bool, int64, float64, string, []any, *dict,
// *namespace, function and undefined. Lists and mappings are never changed
// after they have been made.

// undefined is a name or a key that is not there.
type undefined struct{ name string }

// function is what can be called.
type function func(s *state, a arguments) any

type arguments struct {
	list  []any
	named *dict
}

// dict is a mapping that keeps the order of its keys, which are strings,
// integers or booleans.
type dict struct {
	keys   []any
	values map[any]any
}

func newDict() *dict { return &dict{values: map[any]any{}} }

// isKey reports whether v can be a key. It must be asked before set and get.
func isKey(v any) bool {
	switch v.(type) {
	case string, int64, bool:
		return true
	}
	return false
}

func (d *dict) set(key, value any) {
	if _, ok := d.values[key]; !ok {
		d.keys = append(d.keys, key)
	}
	d.values[key] = value
}

func (d *dict) get(key any) (any, bool) {
	if !isKey(key) {
		return nil, false
	}
	v, ok := d.values[key]
	return v, ok
}

// namespace is the one value that a template may change.
type namespace struct{ dict *dict }

// Field is a key of a mapping whose keys have an order.
type Field struct {
	Key   string
	Value any
}

// value turns a variable of the caller into one of the above.
func value(v any) any {
	switch v := v.(type) {
	case nil, bool, int64, float64, string:
		return v
	case int:
		return int64(v)
	case []string:
		out := make([]any, len(v))
		for i := range v {
			out[i] = v[i]
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = value(v[i])
		}
		return out
	case []Field:
		d := newDict()
		for _, f := range v {
			d.set(f.Key, value(f.Value))
		}
		return d
	case map[string]any:
		d := newDict()
		keys := make([]string, 0, len(v))
		for key := range v {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		for _, key := range keys {
			d.set(key, value(v[key]))
		}
		return d
	}
	panic(failure{message: fmt.Sprintf("a variable of type %T", v)})
}

func truth(v any) bool {
	switch v := v.(type) {
	case nil, undefined:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case []any:
		return len(v) > 0
	case *dict:
		return len(v.keys) > 0
	}
	return true
}

// typeName is Python's, for messages.
func typeName(v any) string {
	switch v := v.(type) {
	case nil:
		return "none"
	case undefined:
		return fmt.Sprintf("undefined (%s)", v.name)
	case bool:
		return "a boolean"
	case int64, float64:
		return "a number"
	case string:
		return "a string"
	case []any:
		return "a list"
	case *dict:
		return "a mapping"
	case *namespace:
		return "a namespace"
	}
	return "a function"
}

// number returns v as a number; booleans are 0 and 1, as in Python.
func toNumber(v any) (i int64, f float64, isInt, ok bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return 1, 1, true, true
		}
		return 0, 0, true, true
	case int64:
		return v, float64(v), true, true
	case float64:
		return 0, v, false, true
	}
	return 0, 0, false, false
}

// equal is ==. It costs what comparing long strings takes.
func (s *state) equal(a, b any) bool {
	if _, x, _, ok := toNumber(a); ok {
		_, y, _, ok := toNumber(b)
		return ok && x == y
	}
	switch a := a.(type) {
	case nil:
		return b == nil
	case undefined:
		_, ok := b.(undefined)
		return ok
	case string:
		b, ok := b.(string)
		s.spend(min(len(a), len(b)) / 16)
		return ok && a == b
	case []any:
		b, ok := b.([]any)
		s.spend(len(a))
		return ok && slices.EqualFunc(a, b, s.equal)
	case *dict:
		b, ok := b.(*dict)
		s.spend(len(a.keys))
		if !ok || len(a.keys) != len(b.keys) {
			return false
		}
		for key, x := range a.values {
			if y, ok := b.values[key]; !ok || !s.equal(x, y) {
				return false
			}
		}
		return true
	case *namespace:
		return a == b
	}
	return false
}

// less orders numbers and strings, and fails for others.
func (s *state) less(a, b any) bool {
	_, x, _, ok1 := toNumber(a)
	_, y, _, ok2 := toNumber(b)
	if ok1 && ok2 {
		return x < y
	}
	text, ok1 := a.(string)
	other, ok2 := b.(string)
	if !ok1 || !ok2 {
		s.fail("%s and %s have no order", typeName(a), typeName(b))
	}
	s.spend(min(len(text), len(other)) / 16)
	return text < other
}

// display is str(v), what {{ v }} writes.
func (s *state) display(v any) string {
	switch v := v.(type) {
	case undefined:
		return ""
	case string:
		return v
	}
	var out strings.Builder
	s.repr(&out, v, 0)
	return out.String()
}

const maxDepth = 100 // of values in values, of expressions, of calls

// repr writes v as Python's repr does.
func (s *state) repr(out *strings.Builder, v any, depth int) {
	s.spend(8)
	if depth > maxDepth {
		s.fail("values more than %d deep", maxDepth)
	}
	switch v := v.(type) {
	case nil:
		out.WriteString("None")
	case bool:
		out.WriteString(strings.ToUpper(strconv.FormatBool(v)[:1]) + strconv.FormatBool(v)[1:])
	case int64:
		out.WriteString(strconv.FormatInt(v, 10))
	case float64:
		out.WriteString(displayFloat(v))
	case string:
		s.spend(len(v))
		out.WriteString(quote(v))
	case []any:
		out.WriteByte('[')
		for i, x := range v {
			if i > 0 {
				out.WriteString(", ")
			}
			s.repr(out, x, depth+1)
		}
		out.WriteByte(']')
	case *dict:
		out.WriteByte('{')
		for i, key := range v.keys {
			if i > 0 {
				out.WriteString(", ")
			}
			s.repr(out, key, depth+1)
			out.WriteString(": ")
			s.repr(out, v.values[key], depth+1)
		}
		out.WriteByte('}')
	case undefined:
		out.WriteString("Undefined")
	default:
		s.fail("cannot write %s", typeName(v))
	}
}

func displayFloat(f float64) string {
	if f == math.Trunc(f) && math.Abs(f) < 1e16 {
		return strconv.FormatFloat(f, 'f', 1, 64)
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// quote is Python's quoting of a string.
func quote(v string) string {
	mark := "'"
	if strings.Contains(v, "'") && !strings.Contains(v, `"`) {
		mark = `"`
	}
	return mark + strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`, "\t", `\t`, mark, `\`+mark).Replace(v) + mark
}

// isSpace is what Python's strip removes.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }
