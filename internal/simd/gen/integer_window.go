package main

import (
	op "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// window is 32 bytes of each key of a block, transposed: those of the first eight keys, and of the others.
type window struct {
	integerScores
	z [2][4]reg.VecVirtual
}

func (g integerScores) window() *window {
	w := &window{integerScores: g}
	for half := range w.z {
		for i := range w.z[half] {
			w.z[half][i] = g.vec()
		}
	}
	return w
}

// fill loads the window at once.
func (w *window) fill(key, at reg.GPVirtual) {
	for half := range w.z {
		n := w.eight(key, at, 8*half)
		w.interleave(&n)
		for i := range n {
			w.put(half, i, n)
		}
	}
}

// next is the next window, further on in the rows or of the next block: what step does after each of its words, of which
// the vectors that this makes have had their last.
func (w *window) next(key, at, dim reg.GPVirtual) []func() {
	rows, place, on := w.GP64(), w.GP64(), w.GP64()
	w.LEAQ(op.Mem{Base: key, Disp: 8 * integerBlock}, rows)
	w.XORL(place.As32(), place.As32())
	w.LEAQ(op.Mem{Base: at, Disp: 32}, on)
	w.CMPQ(dim, imm(w.e.channels()))
	w.CMOVQGT(key, rows)
	w.CMOVQGT(on, place)
	var n [2][4]reg.VecVirtual
	return []func(){
		func() { n[0] = w.eight(rows, place, 0) },
		func() { w.interleave(&n[0]) },
		func() { n[1] = w.eight(rows, place, 8) },
		func() { w.interleave(&n[1]) },
		func() { w.put(0, 0, n[0]); w.put(0, 1, n[0]) },
		func() { w.put(1, 0, n[1]); w.put(1, 1, n[1]) },
		func() { w.put(0, 2, n[0]); w.put(1, 2, n[1]) },
		func() { w.put(0, 3, n[0]); w.put(1, 3, n[1]) },
	}
}

// eight loads 32 bytes of eight keys: of each of the first four beside those of the fourth after it.
func (w *window) eight(key, at reg.GPVirtual, first int) (n [4]reg.VecVirtual) {
	row := func(i int) op.Mem {
		p := w.GP64()
		w.MOVQ(op.Mem{Base: key, Disp: 8 * (first + i)}, p)
		return op.Mem{Base: p, Index: at, Scale: 1}
	}
	for i := range n {
		n[i] = w.vec()
		w.loadPart(row(i), n[i].AsY(), n[i])
		w.VINSERTI64X4(op.U8(1), row(4+i), n[i], n[i])
	}
	return n
}

// interleave takes the words of two keys in turn.
func (w *window) interleave(n *[4]reg.VecVirtual) {
	for i := 0; i < 4; i += 2 {
		lower := w.vec()
		w.VPUNPCKLDQ(n[i+1], n[i], lower)
		w.VPUNPCKHDQ(n[i+1], n[i], n[i+1])
		n[i] = lower
	}
}

// put makes vector i of a half of the window: its first 128 bits are word i of the first four keys, the next word
// 4+i; then come the other four keys'.
func (w *window) put(half, i int, n [4]reg.VecVirtual) {
	if i%2 == 0 {
		w.VPUNPCKLQDQ(n[2+i/2], n[i/2], w.z[half][i])
	} else {
		w.VPUNPCKHQDQ(n[2+i/2], n[i/2], w.z[half][i])
	}
}
