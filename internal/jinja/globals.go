package jinja

// globals are the functions that every template has.
var globals = map[string]function{
	"range":     rangeOf,
	"dict":      func(_ *state, a arguments) any { return a.mapping() },
	"namespace": func(_ *state, a arguments) any { return &namespace{a.mapping()} },
	"raise_exception": func(s *state, a arguments) any {
		s.fail("the template says: %s", s.display(a.at(s, 0, "raise_exception")))
		return nil
	},
}

// mapping returns the named arguments, after those of a mapping.
func (a arguments) mapping() *dict {
	out := newDict()
	if len(a.list) > 0 {
		if d, ok := a.list[0].(*dict); ok {
			for _, key := range d.keys {
				out.set(key, d.values[key])
			}
		}
	}
	if a.named != nil {
		for _, key := range a.named.keys {
			out.set(key, a.named.values[key])
		}
	}
	return out
}

// rangeOf is range(stop), range(start, stop) and range(start, stop, step).
func rangeOf(s *state, a arguments) any {
	var bounds [3]int64
	for i := range a.list {
		n, ok := a.list[i].(int64)
		if !ok || i == len(bounds) {
			s.fail("range of %s", typeName(a.list[i]))
		}
		bounds[i] = n
	}
	start, stop, step := bounds[0], bounds[1], bounds[2]
	switch len(a.list) {
	case 1:
		start, stop, step = 0, bounds[0], 1
	case 2:
		step = 1
	}
	if step == 0 {
		s.fail("range with a step of 0")
	}
	var out []any
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		s.spend(16)
		out = append(out, i)
	}
	return out
}
