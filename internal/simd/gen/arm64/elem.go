package main

import "math"

// elem is an element type: how its memory becomes float32.
type elem struct {
	name string
	bits int
	// scale multiplies what load yields to make the value; a power of two, put on
	// sums so that elements need no multiplication of their own.
	scale float32
	// bytes widens codes of 8 bits to 16, halves those of 16 to float32.
	bytes, halves widening
	integer       bool // halves yields integers
}

var elems = []elem{
	{name: "F32", bits: 32, scale: 1},
	{name: "F16", bits: 16, scale: 1, halves: fcvtl},
	{name: "BF16", bits: 16, scale: 1, halves: shllH16},
	{name: "E4M3", bits: 8, scale: 256, bytes: sxtlB, halves: fcvtl},
	{name: "E5M2", bits: 8, scale: 1, bytes: shllB8, halves: fcvtl},
	{name: "I8", bits: 8, scale: 1, bytes: sxtlB, halves: sxtlH, integer: true},
	{name: "I4", bits: 4, scale: 1, bytes: sxtlB, halves: sxtlH, integer: true},
}

const (
	lanes  = 4  // float32 in a vector
	mostAt = 16 // elements that are loaded together, at most
)

// loader holds the constants and the scratch that a type's loads use.
type loader struct {
	*function
	e                        elem
	mantissa, places, factor vec // E4M3
	t                        vec // E4M3, I4
}

// loader sets up the constants of type e.
func (f *function) loader(e elem, scratch reg) *loader {
	l := &loader{function: f, e: e}
	switch e.name {
	case "E4M3":
		l.mantissa, l.places, l.factor, l.t = f.vec(), f.vec(), f.vec(), f.vec()
		f.broadcast(0x007f007f, l.mantissa, scratch)
		f.broadcast(0xbfffbfff, l.places, scratch)
		f.broadcast(math.Float32bits(e.scale), l.factor, scratch)
	case "I4":
		l.t = f.vec()
	}
	return l
}

// size is the bytes that hold n elements.
func (e elem) size(n int) int { return (n*e.bits + 7) / 8 }

// load makes dst the n elements at base + offset, n a power of two up to mostAt,
// and reads no byte beside theirs. Fewer than 4 leave the rest of their vector
// zero, but that one I4 brings its neighbour.
func (l *loader) load(n int, base reg, offset int, dst []vec) {
	bytes := l.e.size(n)
	switch l.e.bits {
	case 32:
		for i := range dst {
			l.v(ldr(dst[i], min(bytes, 16), base, offset+16*i))
		}
		return
	case 16:
		for i, h := range halvesOf(dst) {
			l.v(ldr(h, min(bytes, 16), base, offset+16*i))
		}
	default:
		l.v(ldr(dst[len(dst)-1], bytes, base, offset))
		l.codes(dst)
	}
	l.floats(dst)
}

// halvesOf are the vectors that hold the 16-bit forms of what dst will: the second
// of each pair, which is widened last.
func halvesOf(dst []vec) []vec {
	switch len(dst) {
	case 1:
		return dst
	case 2:
		return dst[1:]
	}
	return []vec{dst[1], dst[3]}
}

// codes widens 8-bit or 4-bit codes in the last of dst to 16 bits.
func (l *loader) codes(dst []vec) {
	x, h := dst[len(dst)-1], halvesOf(dst)
	if l.e.bits == 4 { // halves of a byte to bytes, signs and all
		l.v(shlB4(l.t, x), sshrB4(l.t, l.t), sshrB4(x, x), zip1(x, l.t, x))
	}
	l.v(l.e.bytes.low(h[0], x))
	if len(h) > 1 {
		l.v(l.e.bytes.high(h[1], x))
	}
	if l.e.name == "E4M3" {
		for _, h := range h {
			l.e4m3(h)
		}
	}
}

// e4m3 puts sign, exponent and mantissa to a binary16's places, 2⁸ too small, and
// turns its NaN into the binary16's.
func (l *loader) e4m3(h vec) {
	l.v(and(l.t, h, l.mantissa), cmeqH(l.t, l.t, l.mantissa))
	l.v(shlH7(h, h), and(h, h, l.places), orr(h, h, l.t))
}

// floats widens the 16-bit forms to float32.
func (l *loader) floats(dst []vec) {
	for i, h := range halvesOf(dst) {
		l.v(l.e.halves.low(dst[2*i], h))
		if len(dst) > 1 {
			l.v(l.e.halves.high(dst[2*i+1], h))
		}
	}
	if l.e.integer {
		for _, x := range dst {
			l.v(scvtf(x, x))
		}
	}
}

// vectors is how many vectors n elements take.
func vectors(n int) int { return (n + lanes - 1) / lanes }
