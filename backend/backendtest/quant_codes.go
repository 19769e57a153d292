package backendtest

import (
	"math"

	"github.com/flashdec/flashdec/kv"
)

// codes are the numbers of a quantised type, read from its definition: as with
// encode, nothing here is package kv's own.
type codes struct {
	t      kv.DType
	finite []float32 // numbers to draw from
	of     map[float32]byte
}

func codesOf(t kv.DType) codes {
	c := codes{t: t, of: map[float32]byte{}}
	for code := range 1 << t.Bits() {
		x := number(t, code)
		if x-x == 0 {
			c.finite = append(c.finite, x)
		}
		c.of[x] = byte(code)
	}
	return c
}

// number is the number that a code means.
func number(t kv.DType, code int) float32 {
	switch t {
	case kv.I8:
		return float32(int8(code))
	case kv.I4:
		return float32((code ^ 8) - 8)
	case kv.F8E4M3:
		if code&0x7f == 0x7f {
			return nan()
		}
		return smallFloat(code, 3, 7)
	}
	if code&0x7f == 0x7c {
		return inf(1 - code>>7*2)
	}
	if code&0x7f > 0x7c {
		return nan()
	}
	return smallFloat(code, 2, 15)
}

// smallFloat is a finite 8-bit float.
func smallFloat(code, mantissa, bias int) float32 {
	exp, frac := code&0x7f>>mantissa, code&(1<<mantissa-1)
	if exp == 0 {
		exp = 1
	} else {
		frac += 1 << mantissa
	}
	x := math.Ldexp(float64(frac), exp-bias-mantissa)
	if code >= 0x80 {
		x = -x
	}
	return float32(x)
}

// put stores x, a number of the type, as element i of a row.
func (c *codes) put(row []byte, i int, x float32) {
	code, ok := c.of[x]
	if x != x && !integer(c.t) {
		code, ok = 0x7f, true
	}
	if !ok {
		panic("backendtest: a number that the type does not have")
	}
	if c.t != kv.I4 {
		row[i] = code
		return
	}
	shift := i % 2 * 4
	row[i/2] = row[i/2]&^(15<<shift) | code<<shift
}

func integer(t kv.DType) bool { return t == kv.I8 || t == kv.I4 }

// largest is the type's largest number.
func largest(t kv.DType) float32 {
	return map[kv.DType]float32{kv.F8E4M3: 448, kv.F8E5M2: 57344, kv.I8: 127, kv.I4: 7}[t]
}
