//go:build !amd64

package simd

// What amd64 alone has kernels for.

func takesHeads(Elem) bool { return false }

func pairScoresFor(Elem) HeadsScoresFunc { return nil }

func accumulateRoundedFor(Elem) HeadsAccumulateFunc { return nil }

func roundWeights(p []float32, stride, rows, keys int, l, alpha []float32) {
	roundWeightsGeneric(p, stride, rows, keys, l, alpha)
}

func asIntegers(Elem) bool { return false }

func integerFor(Elem) *Integer { return nil }

func narrow(dst []byte, e Elem, src []float32) { narrowGeneric(dst, e, src) }

func rowsFor(Elem) RowsFunc { return nil }

func divide(dst, a []float32, l float32) (finite bool) { return divideGeneric(dst, a, l) }

// There are no kernels for x in fixed point here.
func fixes() bool { return false }

func fix(form, []byte, []float32) bool { return false }

func average(dst []float32, weight []float64, o [][]float32, l float64) {
	averageGeneric(dst, weight, o, l, 0)
}

// fetch does nothing here: it is a hint.
func fetch([]float32, []int) {}

func fetchBytes([]byte) {}

func gate(h, g, a, u []float32) { gateGeneric(h, g, a, u) }

func squares(x []float32) float64 { return squaresGeneric(x) }

func times(y, x, w []float32, s float32) { timesGeneric(y, x, w, s) }

func add(y, x []float32) { addGeneric(y, x) }
