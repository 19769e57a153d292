package jinja

import "strconv"

// expression yields a value.
type expression func(s *state) any

// expression reads "a if b else c" and what binds more tightly.
func (p *parser) expression() expression {
	defer p.nest()()
	then := p.or()
	if !p.accept(name, "if") {
		return then
	}
	condition := p.or()
	otherwise := expression(func(*state) any { return undefined{"if without else"} })
	if p.accept(name, "else") {
		otherwise = p.expression()
	}
	return func(s *state) any {
		s.spend(1)
		if truth(condition(s)) {
			return then(s)
		}
		return otherwise(s)
	}
}

// tuple reads one expression, or several between commas, which are a list.
func (p *parser) tuple() expression {
	first := p.expression()
	if !p.is(op, ",") {
		return first
	}
	parts := []expression{first}
	for p.accept(op, ",") {
		if k := p.at().kind; k == blockOut || k == closing || p.is(op, ")") {
			break
		}
		parts = append(parts, p.expression())
	}
	return listOf(parts)
}

func listOf(parts []expression) expression {
	return func(s *state) any {
		out := s.list(len(parts))
		for _, e := range parts {
			out = append(out, e(s))
		}
		return out
	}
}

func (p *parser) or() expression {
	defer p.nest()()
	left := p.and()
	for n := 0; p.accept(name, "or"); n++ {
		p.chain(n)
		a, b := left, p.and()
		left = func(s *state) any {
			if v := a(s); truth(v) {
				return v
			}
			return b(s)
		}
	}
	return left
}

func (p *parser) and() expression {
	left := p.not()
	for n := 0; p.accept(name, "and"); n++ {
		p.chain(n)
		a, b := left, p.not()
		left = func(s *state) any {
			if v := a(s); !truth(v) {
				return v
			}
			return b(s)
		}
	}
	return left
}

func (p *parser) not() expression {
	if !p.accept(name, "not") {
		return p.comparison()
	}
	defer p.nest()()
	e := p.not()
	return func(s *state) any { return !truth(e(s)) }
}

// comparator compares two values.
type comparator func(s *state, a, b any) bool

var comparators = map[string]comparator{
	"==": func(s *state, a, b any) bool { return s.equal(a, b) },
	"!=": func(s *state, a, b any) bool { return !s.equal(a, b) },
	"<":  func(s *state, a, b any) bool { return s.less(a, b) },
	">":  func(s *state, a, b any) bool { return s.less(b, a) },
	"<=": func(s *state, a, b any) bool { return !s.less(b, a) },
	">=": func(s *state, a, b any) bool { return !s.less(a, b) },
}

// comparison reads a chain such as a < b <= c: each pair must hold.
func (p *parser) comparison() expression {
	parts := []expression{p.sum()}
	var between []comparator
	for {
		c := p.comparator()
		if c == nil {
			break
		}
		between, parts = append(between, c), append(parts, p.sum())
	}
	if len(between) == 0 {
		return parts[0]
	}
	return func(s *state) any {
		a := parts[0](s)
		for i, c := range between {
			b := parts[i+1](s)
			s.spend(1)
			if !c(s, a, b) {
				return false
			}
			a = b
		}
		return true
	}
}

func (p *parser) comparator() comparator {
	if c, ok := comparators[p.at().text]; ok && p.at().kind == op {
		p.pos++
		return c
	}
	if p.accept(name, "in") {
		return func(s *state, a, b any) bool { return s.contains(b, a) }
	}
	if next := p.second(); p.is(name, "not") && next.kind == name && next.text == "in" {
		p.pos += 2
		return func(s *state, a, b any) bool { return !s.contains(b, a) }
	}
	return nil
}

// binary reads a chain of left-associative operators.
func (p *parser) binary(next func() expression, operators ...string) expression {
	left := next()
	for n := 0; ; n++ {
		p.chain(n)
		found := ""
		for _, o := range operators {
			if p.accept(op, o) {
				found = o
				break
			}
		}
		if found == "" {
			return left
		}
		a, b := left, next()
		left = func(s *state) any {
			s.spend(1)
			x := a(s)
			return s.operate(found, x, b(s))
		}
	}
}

func (p *parser) sum() expression     { return p.binary(p.join, "+", "-") }
func (p *parser) join() expression    { return p.binary(p.product, "~") }
func (p *parser) product() expression { return p.binary(p.power, "*", "//", "/", "%") }

func (p *parser) power() expression { return p.binary(p.unary, "**") }

// unary reads a sign, or a primary with its fields, subscripts and calls; and
// then filters and tests, which apply to the signed value.
func (p *parser) unary() expression { return p.filtered(p.signed()) }

func (p *parser) signed() expression {
	if !p.is(op, "-") && !p.is(op, "+") {
		return p.postfix(p.primary())
	}
	defer p.nest()()
	sign := p.take().text
	e := p.signed()
	return p.postfix(func(s *state) any { return s.operate(sign, int64(0), e(s)) })
}

// postfix reads fields, subscripts and calls of e.
func (p *parser) postfix(e expression) expression {
	for n := 0; ; n++ {
		p.chain(n)
		switch {
		case p.accept(op, "."):
			e = fieldOf(e, p.take())
		case p.accept(op, "["):
			e = p.subscript(e)
		case p.accept(op, "("):
			e = callOf(e, p.arguments())
		default:
			return e
		}
	}
}

// filtered reads filters and tests of e.
func (p *parser) filtered(e expression) expression {
	for n := 0; ; n++ {
		p.chain(n)
		switch {
		case p.accept(op, "|"):
			e = p.filter(e)
		case p.accept(name, "is"):
			e = p.test(e)
		default:
			return e
		}
	}
}

func callOf(callee expression, args func(*state) arguments) expression {
	return func(s *state) any {
		s.spend(1)
		f := callee(s)
		return s.call(f, args(s))
	}
}

func fieldOf(e expression, x lexeme) expression {
	if x.kind == number {
		i, err := strconv.ParseInt(x.text, 10, 64)
		if err != nil {
			fail(x.line, "%q where a name was wanted", x.text)
		}
		return func(s *state) any { s.spend(1); return s.index(e(s), i) }
	}
	if x.kind != name {
		fail(x.line, "%q where a name was wanted", x.text)
	}
	return func(s *state) any { s.spend(1); return s.field(e(s), x.text) }
}

// subscript reads a[i] or a[i:j:k], after the bracket.
func (p *parser) subscript(e expression) expression {
	var bounds [3]expression
	colons := 0
	for !p.accept(op, "]") {
		if p.accept(op, ":") {
			if colons++; colons > 2 {
				fail(p.at().line, "a slice of more than three parts")
			}
			continue
		}
		if bounds[colons] != nil {
			fail(p.at().line, "%q where ] was wanted", p.at().text)
		}
		bounds[colons] = p.expression()
	}
	if colons > 0 {
		return func(s *state) any { return s.slice(e(s), bounds) }
	}
	if bounds[0] == nil {
		fail(p.at().line, "a subscript that is empty")
	}
	return func(s *state) any {
		s.spend(1)
		v := e(s)
		return s.index(v, bounds[0](s))
	}
}
