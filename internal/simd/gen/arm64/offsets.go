package main

// offsets walks the row offsets of a tile. It guesses that the next row lies as
// far on as the second from the first, and only compares the guess with the list:
// addresses then do not wait for a load, which queues behind the cache misses of
// the rows before it. A wrong guess is a mispredicted branch, once a page.
type offsets struct {
	*function
	off    reg
	rel    reg // the next row's offset
	guess  reg // how far apart rows are
	listed reg
}

// offsets sets up for a tile of at least one key.
func (f *function) offsets(keys reg) *offsets {
	o := &offsets{function: f, off: f.arg("off"), rel: f.reg(), guess: f.reg(), listed: f.reg()}
	o.first()
	one := f.label("oneKey")
	f.op("MOVD", zeroReg, o.guess)
	f.op("CMP", 1, keys)
	f.op("BEQ", one)
	f.op("MOVD", at(o.off, 8), o.guess)
	f.op("SUB", o.rel, o.guess)
	f.mark(one)
	return o
}

// first goes to the first row.
func (o *offsets) first() { o.op("MOVD", at(o.off, 0), o.rel) }

// next moves from row j−1 to row j, which the tile must have.
func (o *offsets) next(j reg) {
	right := o.label("guessed")
	o.op("ADD", o.guess, o.rel)
	o.op("MOVD", word64(o.off, j), o.listed)
	o.op("CMP", o.listed, o.rel)
	o.op("BEQ", right)
	o.op("MOVD", o.listed, o.rel)
	o.mark(right)
}
