package main

import (
	op "github.com/mmcloughlin/avo/operand"
)

// fetchFile emits the fetching of single numbers, and of bytes in the order of memory, into the second cache as rows are.
func fetchFile(g *gen) {
	g.TEXT("fetch"+g.suffix, "func(x *float32, at *int, n int)", "fetches the lines of x[at[i]], i < n, at least 1.")
	x, at, n, i := g.param("x"), g.param("at"), g.param("n"), g.GP64()
	g.Label("next")
	g.MOVQ(op.Mem{Base: at}, i)
	g.PREFETCHT1(op.Mem{Base: x, Index: i, Scale: 4})
	g.ADDQ(imm(8), at)
	g.DECQ(n)
	g.JNZ(op.LabelRef("next"))
	g.RET()

	g.TEXT("fetchBytes"+g.suffix, "func(data *byte, lines int)", "fetches so many lines, at least 1.")
	data, lines := g.param("data"), g.param("lines")
	g.Label("line")
	g.PREFETCHT1(op.Mem{Base: data})
	g.ADDQ(imm(64), data)
	g.DECQ(lines)
	g.JNZ(op.LabelRef("line"))
	g.RET()
}
