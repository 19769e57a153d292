package jinja

import (
	"strconv"
	"strings"
)

func constant(v any) expression { return func(*state) any { return v } }

// primary reads a literal, a name, or an expression in parentheses.
func (p *parser) primary() expression {
	switch x := p.take(); x.kind {
	case str:
		whole := x.text
		for p.at().kind == str { // neighbours are joined
			whole += p.take().text
		}
		return constant(whole)
	case number:
		return constant(literal(x))
	case name:
		return named(x.text)
	case op:
		switch x.text {
		case "(":
			return p.parentheses()
		case "[":
			return listOf(p.sequence("]"))
		case "{":
			return p.mapping()
		}
		fail(x.line, "%q where a value was wanted", x.text)
	default:
		fail(x.line, "%q where a value was wanted", x.text)
	}
	return nil
}

func literal(x lexeme) any {
	if i, err := strconv.ParseInt(x.text, 10, 64); err == nil {
		return i
	}
	f, err := strconv.ParseFloat(x.text, 64)
	if err != nil || !strings.ContainsAny(x.text, ".eE") {
		fail(x.line, "number %s", x.text)
	}
	return f
}

func named(word string) expression {
	switch word {
	case "true", "True":
		return constant(true)
	case "false", "False":
		return constant(false)
	case "none", "None":
		return constant(nil)
	}
	return func(s *state) any {
		s.spend(1)
		if v, ok := s.scope.lookup(word); ok {
			return v
		}
		return undefined{word}
	}
}

func (p *parser) parentheses() expression {
	if p.accept(op, ")") {
		return listOf(nil)
	}
	e := p.tuple()
	p.expect(op, ")")
	return e
}

// sequence reads expressions between commas up to the closing bracket.
func (p *parser) sequence(end string) []expression {
	var out []expression
	for !p.accept(op, end) {
		out = append(out, p.expression())
		if !p.is(op, end) {
			p.expect(op, ",")
		}
	}
	return out
}

func (p *parser) mapping() expression {
	var keys, values []expression
	for !p.accept(op, "}") {
		keys = append(keys, p.expression())
		p.expect(op, ":")
		values = append(values, p.expression())
		if !p.is(op, "}") {
			p.expect(op, ",")
		}
	}
	return func(s *state) any {
		d := newDict()
		for i, key := range keys {
			s.spend(32)
			k := key(s)
			if !isKey(k) {
				s.fail("a key that is %s", typeName(k))
			}
			d.set(k, values[i](s))
		}
		return d
	}
}

// arguments reads a, b, c=d up to the parenthesis.
func (p *parser) arguments() func(s *state) arguments {
	var list, values []expression
	var names []string
	for !p.accept(op, ")") {
		if next := p.second(); p.at().kind == name && next.kind == op && next.text == "=" {
			names = append(names, p.name())
			p.pos++
			values = append(values, p.expression())
		} else {
			list = append(list, p.expression())
		}
		if !p.is(op, ")") {
			p.expect(op, ",")
		}
	}
	return func(s *state) arguments {
		var a arguments
		for _, e := range list {
			a.list = append(a.list, e(s))
		}
		for i, name := range names {
			if a.named == nil {
				a.named = newDict()
			}
			a.named.set(name, values[i](s))
		}
		return a
	}
}

// filter reads the name of a filter and its arguments, after the bar.
func (p *parser) filter(e expression) expression {
	called := p.name()
	f, ok := filters[called]
	if !ok { // a branch that is not taken may hold it
		f = func(s *state, _ any, _ arguments) any {
			s.fail("filter %q is not built", called)
			return nil
		}
	}
	args := func(*state) arguments { return arguments{} }
	if p.accept(op, "(") {
		args = p.arguments()
	}
	return func(s *state) any {
		s.spend(1)
		v := e(s)
		return f(s, v, args(s))
	}
}

// test reads the name of a test and its argument, after "is".
func (p *parser) test(e expression) expression {
	negated := p.accept(name, "not")
	line, called := p.at().line, p.take().text
	f, ok := tests[called]
	if !ok {
		fail(line, "test %q is not built", called)
	}
	args := func(*state) arguments { return arguments{} }
	switch x := p.at(); {
	case p.accept(op, "("):
		args = p.arguments()
	case x.kind == str || x.kind == number || x.kind == name && !reserved[x.text]:
		one := p.postfix(p.primary())
		args = func(s *state) arguments { return arguments{list: []any{one(s)}} }
	}
	return func(s *state) any {
		s.spend(1)
		v := e(s)
		return f(s, v, args(s)) != negated
	}
}

// reserved are the words that may follow a test and are no argument of it.
var reserved = map[string]bool{"and": true, "or": true, "not": true, "if": true, "else": true, "is": true, "in": true}
