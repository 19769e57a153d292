package jinja

import (
	"errors"
	"fmt"
	"strings"
)

// Errors that the package's errors wrap.
var (
	// ErrTemplate: the template is not valid, fails, or uses what is not built.
	ErrTemplate = errors.New("jinja: template fails")
	// ErrBudget: the template needs more steps or bytes than it was given.
	ErrBudget = errors.New("jinja: template exceeds its budget")
)

// maxSource bounds a template. The longest in use have some 20 kB.
const maxSource = 1 << 20

// Budget is how many steps a template may take: one for each part of an
// expression that is evaluated, and one for each byte that it makes.
type Budget int

// failure carries an error to Parse and Execute, which return it.
type failure struct {
	line    int // 0 where it is not known
	message string
	kind    error // nil is ErrTemplate
}

func fail(line int, format string, args ...any) {
	panic(failure{line: line, message: fmt.Sprintf(format, args...)})
}

// recovered turns a failure that was panicked with into an error.
func recovered(err *error) {
	switch f := recover().(type) {
	case nil:
	case failure:
		kind := f.kind
		if kind == nil {
			kind = ErrTemplate
		}
		if *err = fmt.Errorf("%w: %s", kind, f.message); f.line > 0 {
			*err = fmt.Errorf("%w: line %d: %s", kind, f.line, f.message)
		}
	default:
		panic(f)
	}
}

// Template is a template that has been parsed. It may be used by several
// goroutines.
type Template struct{ body block }

// Parse reads a template. Its error wraps [ErrTemplate].
func Parse(source string) (t *Template, err error) {
	defer recovered(&err)
	if len(source) > maxSource {
		fail(0, "%d bytes, want at most %d", len(source), maxSource)
	}
	p := &parser{lexemes: lex(source)}
	body := p.block()
	if p.at().kind != eof {
		fail(p.at().line, "%q without a beginning", p.second().text)
	}
	return &Template{body}, nil
}

// Execute renders the template with variables, which are nil, booleans,
// integers, floats, strings, slices of any or string, maps of string to any, and
// slices of Field; and with functions of one string. Its error wraps [ErrTemplate] or [ErrBudget].
func (t *Template) Execute(variables map[string]any, functions map[string]func(argument string) (string, error), budget Budget) (text string, err error) {
	defer recovered(&err)
	s := &state{out: &strings.Builder{}, budget: int(budget), scope: &scope{names: map[string]any{}}}
	for name, f := range globals {
		s.scope.names[name] = f
	}
	for name, f := range functions {
		s.scope.names[name] = callGo(name, f)
	}
	for name, v := range variables {
		s.scope.names[name] = value(v)
	}
	t.body.run(s)
	return s.out.String(), nil
}

// callGo makes a function of one string callable.
func callGo(name string, f func(string) (string, error)) function {
	return func(s *state, a arguments) any {
		out, err := f(s.display(a.at(s, 0, name)))
		if err != nil {
			s.fail("%s: %v", name, err)
		}
		s.spend(len(out))
		return out
	}
}
