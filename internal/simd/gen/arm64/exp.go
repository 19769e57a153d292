package main

import "math"

// exp is e^x for x ≤ 0: with n = round(x·log2 e) and r = x − n·ln 2, |r| ≤ ln(2)/2,
// it is 2^n·(1 + r + r²·P(r)), P of degree 4. Below −104 it is 0. NaN stays NaN.
type exp struct {
	f                                 *function
	lowest, log2e, ln2hi, ln2lo, bias vec
	coefficients                      []vec // of the polynomial in r, the highest first
	n, half, r, sum, next             vec
}

const ln2hi = 0.693359375 // ln 2 but for the digits that make n·ln2hi inexact

func (f *function) newExp(scratch reg) exp {
	constant := func(x float64) vec {
		v := f.vec()
		f.broadcast(math.Float32bits(float32(x)), v, scratch)
		return v
	}
	e := exp{
		f: f, lowest: constant(-104), log2e: constant(math.Log2E), ln2hi: constant(ln2hi), ln2lo: constant(math.Ln2 - ln2hi),
		bias: f.vec(), n: f.vec(), half: f.vec(), r: f.vec(), sum: f.vec(), next: f.vec(),
	}
	f.broadcast(127, e.bias, scratch)
	// Minimax on the interval, from Cephes' expf.
	for _, c := range []float64{1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1, 1} {
		e.coefficients = append(e.coefficients, constant(c))
	}
	e.coefficients = append(e.coefficients, e.coefficients[6])
	return e
}

// of replaces x by its exponential.
func (e exp) of(x vec) {
	v := e.f.v
	v(fmax(x, x, e.lowest), fmul(e.n, x, e.log2e), frintn(e.n, e.n))
	v(mov(e.r, x), fmls(e.r, e.n, e.ln2hi), fmls(e.r, e.n, e.ln2lo))
	sum, next := e.sum, e.next
	v(mov(sum, e.coefficients[0]))
	for _, c := range e.coefficients[1:] { // sum = c + sum·r
		v(mov(next, c), fmla(next, sum, e.r))
		sum, next = next, sum
	}
	// 2^n in two steps, as 2^n alone may be below the normal numbers.
	v(fcvtns(e.n, e.n), sshrS1(e.half, e.n), subS(e.n, e.n, e.half))
	for _, k := range []vec{e.half, e.n} {
		v(addS(k, k, e.bias), shlS23(k, k), fmul(sum, sum, k))
	}
	v(mov(x, sum))
}
