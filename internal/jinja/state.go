package jinja

import (
	"fmt"
	"strings"
)

// state is one rendering.
type state struct {
	out    *strings.Builder
	scope  *scope
	budget int
	depth  int // of calls
	line   int // of the statement that runs
}

// scope holds the names that were set in a loop, a macro or a template.
type scope struct {
	names  map[string]any
	parent *scope
}

func (c *scope) lookup(name string) (any, bool) {
	for ; c != nil; c = c.parent {
		if v, ok := c.names[name]; ok {
			return v, true
		}
	}
	return nil, false
}

// inner runs f in a new scope under c.
func (s *state) inner(c *scope, f func()) {
	outer := s.scope
	s.scope = &scope{names: map[string]any{}, parent: c}
	f()
	s.scope = outer
}

// capture runs f and returns what it wrote.
func (s *state) capture(f func()) string {
	outer := s.out
	s.out = &strings.Builder{}
	f()
	text := s.out.String()
	s.out = outer
	return text
}

func (s *state) fail(format string, args ...any) { fail(s.line, format, args...) }

// spend takes n from the budget.
func (s *state) spend(n int) {
	if s.budget -= n; s.budget < 0 || n < 0 {
		panic(failure{line: s.line, message: "too many steps or bytes", kind: ErrBudget})
	}
}

func (s *state) write(text string) {
	s.spend(len(text))
	s.out.WriteString(text)
}

// call calls v.
func (s *state) call(v any, a arguments) any {
	f, ok := v.(function)
	if !ok {
		s.fail("%s cannot be called", typeName(v))
	}
	if s.depth++; s.depth > maxDepth {
		s.fail("calls more than %d deep", maxDepth)
	}
	result := f(s, a)
	s.depth--
	return result
}

// at returns the i-th argument by place.
func (a arguments) at(s *state, i int, what string) any {
	if i >= len(a.list) {
		s.fail("%s with %d arguments, want %d or more", what, len(a.list), i+1)
	}
	return a.list[i]
}

// get returns the i-th argument, by place or by name, otherwise if it is not
// there.
func (a arguments) get(i int, name string, otherwise any) any {
	if i < len(a.list) {
		return a.list[i]
	}
	if a.named != nil {
		if v, ok := a.named.get(name); ok {
			return v
		}
	}
	return otherwise
}

// text returns the i-th argument, which must be a string.
func (a arguments) text(s *state, i int, what string) string {
	v := a.at(s, i, what)
	text, ok := v.(string)
	if !ok {
		s.fail("%s: %s, want a string", what, typeName(v))
	}
	return text
}

// items returns what a loop over v goes through.
func (s *state) items(v any) []any {
	switch v := v.(type) {
	case []any:
		s.spend(len(v))
		return v
	case undefined:
		return nil
	case string:
		s.spend(17 * len(v))
		out := make([]any, 0, len(v))
		for _, r := range v {
			out = append(out, string(r))
		}
		return out
	case *dict:
		s.spend(17 * len(v.keys))
		out := make([]any, len(v.keys))
		copy(out, v.keys)
		return out
	}
	s.fail("%s cannot be gone through", typeName(v))
	return nil
}

// list charges for a new list of n values.
func (s *state) list(n int) []any {
	s.spend(16 * n)
	return make([]any, 0, n)
}

// field is v.name in an expression: a method or what an object holds, and
// failing that a key.
func (s *state) field(v any, name string) any {
	if m, ok := method(v, name); ok {
		return m
	}
	return s.index(v, name)
}

// index is v[key]: what is there, and failing that a method or undefined.
func (s *state) index(v, key any) any {
	switch c := v.(type) {
	case *dict:
		if x, ok := c.get(key); ok {
			return x
		}
	case *namespace:
		if x, ok := c.dict.get(key); ok {
			return x
		}
	case []any:
		if i, ok := place(key, len(c)); ok {
			return c[i]
		}
	case string:
		s.spend(len(c))
		if runes := []rune(c); true {
			if i, ok := place(key, len(runes)); ok {
				return string(runes[i])
			}
		}
	case undefined:
		s.fail("%s has no %v", typeName(v), key)
	}
	name, _ := key.(string)
	if m, ok := method(v, name); ok {
		return m
	}
	return undefined{fmt.Sprintf("%v of %s", key, typeName(v))}
}

// place turns an index, which may count from the end, into one of n.
func place(key any, n int) (int, bool) {
	i, _, isInt, ok := toNumber(key)
	if !ok || !isInt {
		return 0, false
	}
	if i < 0 {
		i += int64(n)
	}
	return int(i), i >= 0 && i < int64(n)
}
