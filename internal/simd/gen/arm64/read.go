package main

// readFile emits a bare streaming read: 16 vectors a turn, xor-ed into eight.
func readFile(f *file) {
	g := f.function("readNEON", "reads n bytes, a multiple of 1024, at least so many, and returns the xor of their words.",
		"data *byte, n int", "uint32")
	p, left := g.arg("data"), g.arg("n")
	acc, x := g.vecs(8), g.vecs(16)
	for _, a := range acc {
		g.v(zero(a))
	}
	again := g.label("again")
	g.mark(again)
	for i := range x {
		g.v(ldr(x[i], 16, p, 16*i))
	}
	for i := range x {
		g.v(eor(acc[i%len(acc)], acc[i%len(acc)], x[i]))
	}
	g.op("ADD", 16*len(x), p)
	g.op("SUBS", 16*len(x), left)
	g.op("BNE", again)
	for n := len(acc) / 2; n > 0; n /= 2 {
		for i := range n {
			g.v(eor(acc[i], acc[i], acc[i+n]))
		}
	}
	sum, upper := g.reg(), g.reg()
	g.v(fmovX(sum, acc[0]), fmovUpper(upper, acc[0]))
	g.op("EOR", upper, sum)
	g.op("EOR", mem(sum.String()+">>32"), sum)
	g.op("MOVW", sum, g.args["ret"])
	g.ret()
}
