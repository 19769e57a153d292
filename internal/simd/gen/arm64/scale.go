package main

// scale multiplies rows of a tile by what each key has of its own: a vector of
// scales is loaded once and meets all rows.
type scale struct {
	*function
	weights                       bool
	s, by, rows, row, n           reg
	x, old, product, mask, nought vec
	negZero                       vec
}

func scaleFile(f *file) {
	const signature = "s *float32, stride int, rows int, keys int, x *float32"
	g := &scale{function: f.function("scaleScoresNEON", "computes s[r·stride+j] *= x[j], j < keys, r < rows.", signature, "")}
	g.emit()
	g = &scale{weights: true, function: f.function("scaleWeightsNEON",
		"computes s[r·stride+j] *= x[j]·unit, j < keys, r < rows, where −0 stays −0 and nothing else becomes it.",
		signature+", unit float32", "")}
	g.emit()
}

func (g *scale) emit() {
	keys, x, turns := g.arg("keys"), g.arg("x"), g.reg()
	g.s, g.by, g.rows, g.row, g.n = g.arg("s"), g.arg("stride"), g.arg("rows"), g.reg(), g.reg()
	g.x, g.old, g.product, g.mask, g.nought, g.negZero = g.vec(), g.vec(), g.vec(), g.vec(), g.vec(), g.vec()
	unit := g.vec()
	g.op("LSL", 2, g.by)
	if g.weights {
		g.op("MOVWU", g.args["unit"], g.n)
		g.v(dupW(unit, g.n), zero(g.nought))
		g.broadcast(1<<31, g.negZero, g.n)
	}
	g.repeat(keys, lanes, turns, func(n int) {
		g.v(ldrOn(g.x, 4*n, x))
		if g.weights {
			g.v(fmul(g.x, g.x, unit))
		}
		g.column(n)
		g.op("ADD", 4*n, g.s)
	})
	g.ret()
}

// column multiplies n elements of every row.
func (g *scale) column(n int) {
	row := g.label("row")
	g.op("MOVD", g.s, g.row)
	g.op("MOVD", g.rows, g.n)
	g.mark(row)
	g.v(ldr(g.old, 4*n, g.row, 0), fmul(g.product, g.old, g.x))
	if g.weights {
		g.v(fadd(g.product, g.product, g.nought)) // −0 + 0 = 0
		g.v(cmeqS(g.mask, g.old, g.negZero), bit(g.product, g.old, g.mask))
	}
	g.v(str(g.product, 4*n, g.row, 0))
	g.op("ADD", g.by, g.row)
	g.op("SUBS", 1, g.n)
	g.op("BNE", row)
}
