package jinja

// signal says how a statement ended.
type signal uint8

const (
	done signal = iota
	breaks
	continues
)

// statement does its work on a state.
type statement func(s *state) signal

type block []statement

func (b block) run(s *state) signal {
	for _, do := range b {
		s.spend(1)
		if sig := do(s); sig != done {
			return sig
		}
	}
	return done
}

type parser struct {
	lexemes []lexeme
	pos     int
	depth   int
	loops   int // how many loops are open
}

func (p *parser) at() lexeme { return p.lexemes[p.pos] }

// second is the lexeme after the next, the last where there is none.
func (p *parser) second() lexeme { return p.lexemes[min(p.pos+1, len(p.lexemes)-1)] }

func (p *parser) take() lexeme {
	x := p.at()
	if x.kind != eof {
		p.pos++
	}
	return x
}

// is reports whether the next lexeme is this one.
func (p *parser) is(k kind, text string) bool { return p.at().kind == k && p.at().text == text }

// accept takes the next lexeme if it is this one.
func (p *parser) accept(k kind, text string) bool {
	if p.is(k, text) {
		p.pos++
		return true
	}
	return false
}

func (p *parser) expect(k kind, text string) {
	if !p.accept(k, text) {
		fail(p.at().line, "%q where %q was wanted", p.at().text, text)
	}
}

func (p *parser) name() string {
	if p.at().kind != name {
		fail(p.at().line, "%q where a name was wanted", p.at().text)
	}
	return p.take().text
}

// nest counts how deep the parser is; the function it returns leaves again.
func (p *parser) nest() func() {
	if p.depth++; p.depth > maxDepth {
		fail(p.at().line, "nested more than %d deep", maxDepth)
	}
	return func() { p.depth-- }
}

// maxChain is how many operators, fields or filters may follow one another.
const maxChain = 1000

func (p *parser) chain(n int) {
	if n > maxChain {
		fail(p.at().line, "more than %d operators in a chain", maxChain)
	}
}

// block reads statements up to the end, or to a tag with one of the names,
// which it leaves.
func (p *parser) block(ends ...string) block {
	defer p.nest()()
	var out block
	for {
		switch x := p.at(); x.kind {
		case text:
			p.pos++
			out = append(out, func(s *state) signal { s.write(x.text); return done })
		case open:
			p.pos++
			e := p.tuple()
			p.expect(closing, "}}")
			out = append(out, func(s *state) signal {
				s.line = x.line
				s.write(s.display(e(s)))
				return done
			})
		case blockIn:
			word := p.second().text
			for _, end := range ends {
				if word == end {
					return out
				}
			}
			p.pos++
			do := p.statement(p.name())
			if do == nil {
				p.pos -= 2
				return out
			}
			out = append(out, func(s *state) signal { s.line = x.line; return do(s) })
		default:
			return out
		}
	}
}

// end reads {% word %}.
func (p *parser) end(word string) {
	p.expect(blockIn, "{%")
	p.expect(name, word)
	p.expect(blockOut, "%}")
}

// statement reads what follows {% word; nil if no statement is called so.
func (p *parser) statement(word string) statement {
	switch word {
	case "if":
		return p.ifs()
	case "for":
		return p.loop()
	case "set":
		return p.set()
	case "macro":
		return p.macro()
	case "break", "continue":
		if p.loops == 0 {
			fail(p.at().line, "%s outside of a loop", word)
		}
		p.expect(blockOut, "%}")
		sig := map[string]signal{"break": breaks, "continue": continues}[word]
		return func(*state) signal { return sig }
	case "generation": // marks what the model wrote, for training
		p.expect(blockOut, "%}")
		body := p.block("endgeneration")
		p.end("endgeneration")
		return body.run
	case "else", "elif", "endif", "endfor", "endset", "endmacro", "endgeneration":
		return nil
	}
	fail(p.at().line, "statement %q is not built", word)
	return nil
}

func (p *parser) ifs() statement {
	condition := p.expression()
	p.expect(blockOut, "%}")
	then := p.block("elif", "else", "endif")
	var otherwise statement
	p.expect(blockIn, "{%")
	switch word := p.name(); word {
	case "elif":
		defer p.nest()()
		otherwise = p.ifs()
	case "else":
		p.expect(blockOut, "%}")
		otherwise = p.block("endif").run
		p.end("endif")
	default:
		if word != "endif" {
			fail(p.at().line, "%q where endif was wanted", word)
		}
		p.expect(blockOut, "%}")
	}
	return func(s *state) signal {
		if truth(condition(s)) {
			return then.run(s)
		}
		if otherwise != nil {
			return otherwise(s)
		}
		return done
	}
}

// set reads {% set a, b = … %}, {% set n.a = … %} or {% set a %}…{% endset %}.
func (p *parser) set() statement {
	target := p.target()
	if p.accept(op, "=") {
		e := p.tuple()
		p.expect(blockOut, "%}")
		return func(s *state) signal { target(s, e(s)); return done }
	}
	p.expect(blockOut, "%}")
	body := p.block("endset")
	p.end("endset")
	return func(s *state) (sig signal) {
		target(s, s.capture(func() { sig = body.run(s) }))
		return sig
	}
}

// assignment gives a value to a name, to several, or to a namespace's field.
type assignment func(s *state, v any)

func (p *parser) target() assignment {
	names := []string{p.name()}
	if p.accept(op, ".") {
		object, field := names[0], p.name()
		return func(s *state, v any) {
			x, _ := s.scope.lookup(object)
			n, ok := x.(*namespace)
			if !ok {
				s.fail("%s.%s is set, and %s is %s, want a namespace", object, field, object, typeName(x))
			}
			s.spend(16)
			n.dict.set(field, v)
		}
	}
	for p.accept(op, ",") {
		names = append(names, p.name())
	}
	return assign(names)
}

// assign gives a value to one name, or its items to several.
func assign(names []string) assignment {
	return func(s *state, v any) {
		if len(names) == 1 {
			s.scope.names[names[0]] = v
			return
		}
		items := s.items(v)
		if len(items) != len(names) {
			s.fail("%d values for %d names", len(items), len(names))
		}
		for i, name := range names {
			s.scope.names[name] = items[i]
		}
	}
}

func (p *parser) macro() statement {
	called := p.name()
	p.expect(op, "(")
	var names []string
	var defaults []expression
	for !p.accept(op, ")") {
		names = append(names, p.name())
		var e expression
		if p.accept(op, "=") {
			e = p.expression()
		}
		defaults = append(defaults, e)
		if !p.is(op, ")") {
			p.expect(op, ",")
		}
	}
	p.expect(blockOut, "%}")
	loops := p.loops
	p.loops = 0
	body := p.block("endmacro")
	p.loops = loops
	p.end("endmacro")
	return func(s *state) signal {
		defined := s.scope
		s.scope.names[called] = function(func(s *state, a arguments) (result any) {
			s.inner(defined, func() {
				for i, name := range names {
					v := a.get(i, name, undefined{name})
					if _, missing := v.(undefined); missing && defaults[i] != nil {
						v = defaults[i](s)
					}
					s.scope.names[name] = v
				}
				result = s.capture(func() { body.run(s) })
			})
			return result
		})
		return done
	}
}
