package jinja

// loop reads {% for a, b in … if … %}…{% else %}…{% endfor %}.
func (p *parser) loop() statement {
	names := []string{p.name()}
	for p.accept(op, ",") {
		names = append(names, p.name())
	}
	p.expect(name, "in")
	over := p.or() // no conditional: "if" filters
	var filter expression
	if p.accept(name, "if") {
		filter = p.expression()
	}
	p.expect(blockOut, "%}")
	p.loops++
	body := p.block("else", "endfor")
	p.loops--
	var otherwise block
	if p.is(blockIn, "{%") && p.second().text == "else" {
		p.pos += 2
		p.expect(blockOut, "%}")
		otherwise = p.block("endfor")
	}
	p.end("endfor")
	each := loop{assign: assign(names), body: body}
	return func(s *state) signal {
		items := s.items(over(s))
		if filter != nil {
			items = each.keep(s, items, filter)
		}
		if len(items) == 0 {
			return otherwise.run(s)
		}
		each.run(s, items)
		return done
	}
}

type loop struct {
	assign assignment
	body   block
}

// keep returns the items for which the filter holds.
func (l loop) keep(s *state, items []any, filter expression) []any {
	out := s.list(len(items))
	for _, item := range items {
		s.inner(s.scope, func() {
			l.assign(s, item)
			if truth(filter(s)) {
				out = append(out, item)
			}
		})
	}
	return out
}

// run runs the body for each item, in a scope of its own.
func (l loop) run(s *state, items []any) {
	for i := range items {
		s.spend(1)
		var sig signal
		s.inner(s.scope, func() {
			l.assign(s, items[i])
			s.scope.names["loop"] = position{items, i}
			sig = l.body.run(s)
		})
		if sig == breaks {
			return
		}
	}
}

// position is the name "loop" in a loop.
type position struct {
	items []any
	i     int
}

func (l position) field(name string) (any, bool) {
	n := len(l.items)
	switch name {
	case "index":
		return int64(l.i + 1), true
	case "index0":
		return int64(l.i), true
	case "revindex":
		return int64(n - l.i), true
	case "revindex0":
		return int64(n - l.i - 1), true
	case "first":
		return l.i == 0, true
	case "last":
		return l.i == n-1, true
	case "length":
		return int64(n), true
	case "previtem":
		if l.i > 0 {
			return l.items[l.i-1], true
		}
		return undefined{"loop.previtem"}, true
	case "nextitem":
		if l.i+1 < n {
			return l.items[l.i+1], true
		}
		return undefined{"loop.nextitem"}, true
	}
	return nil, false
}
