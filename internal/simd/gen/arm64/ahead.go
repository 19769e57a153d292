package main

const aheadParams = "ahead *byte, aheadOff *int, aheadKeys int, aheadLines int"

// ahead fetches the rows that come next, line by line in the order of memory and
// spread evenly over the kernel's steps, into the second cache.
type ahead struct {
	*function
	p, left reg // the next line; the lines left in its row, this one counted
	row     reg // the row's number
	per     reg // lines a step; 0 when there are no more
	n       reg
}

// ahead sets up for a number of steps, at least 1.
func (f *function) ahead(steps reg) *ahead {
	a := &ahead{function: f, p: f.reg(), left: f.reg(), row: f.reg(), n: f.reg()}
	a.per = f.arg("aheadKeys")
	nothing := f.label("nothingAhead")
	f.op("MOVD", zeroReg, a.row)
	f.op("CBZ", a.per, nothing)
	a.begin()
	// per = ⌈aheadKeys·aheadLines / steps⌉
	f.op("MUL", a.left, a.per)
	f.op("ADD", steps, a.per)
	f.op("SUB", 1, a.per)
	f.op("UDIV", steps, a.per)
	f.mark(nothing)
	return a
}

const zeroReg = mem("ZR")

// begin points at the first line of the current row.
func (a *ahead) begin() {
	a.reload("aheadOff", a.p)
	a.op("MOVD", word64(a.p, a.row), a.p)
	a.reload("ahead", a.left)
	a.op("ADD", a.left, a.p)
	a.reload("aheadLines", a.left)
}

// step touches one step's lines.
func (a *ahead) step() {
	a.op("MOVD", a.per, a.n)
	a.touch()
}

// rest touches all lines that are left.
func (a *ahead) rest() {
	a.op("NEG", a.per, a.n) // as a count, more than there can be; 0 stays 0
	a.touch()
}

func (a *ahead) touch() {
	line, same, next, done := a.label("line"), a.label("sameRow"), a.label("nextRow"), a.label("touched")
	a.op("CBZ", a.n, done)
	a.mark(line)
	a.op("PRFM", at(a.p, 0), mem("PLDL2KEEP"))
	a.op("ADD", 64, a.p)
	a.op("SUBS", 1, a.left)
	a.op("BNE", same)
	a.op("ADD", 1, a.row)
	a.reload("aheadKeys", a.left)
	a.op("CMP", a.left, a.row)
	a.op("BLT", next)
	a.op("MOVD", zeroReg, a.per)
	a.op("JMP", done)
	a.mark(next)
	a.begin()
	a.mark(same)
	a.op("SUBS", 1, a.n)
	a.op("BNE", line)
	a.mark(done)
}
