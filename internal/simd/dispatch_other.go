//go:build !amd64 && !arm64

package simd

const hasNEON, hasAVX2, hasAVX512, hasVNNI, hasDots, inHalves = false, false, false, false, false, false

// architecture is the levels that any other architecture has.
var architecture = []string{Generic}

func scoresFor(e Elem) HeadsScoresFunc         { return scoresPlain(e) }
func accumulateFor(e Elem) HeadsAccumulateFunc { return accumulatePlain(e) }
func takesHeads(Elem) bool                     { return false }
func pairScoresFor(Elem) HeadsScoresFunc       { return nil }

func accumulateRoundedFor(Elem) HeadsAccumulateFunc { return nil }

func roundWeights(p []float32, stride, rows, keys int, l, alpha []float32) {
	roundWeightsGeneric(p, stride, rows, keys, l, alpha)
}

func asIntegers(Elem) bool     { return false }
func integerFor(Elem) *Integer { return nil }

func dequantise(b Block, dst []float32, src []byte) { dequantiseGeneric(b, dst, src) }

func narrow(dst []byte, e Elem, src []float32) { narrowGeneric(dst, e, src) }

func dotFor(b Block) DotFunc { return dotPlain(b) }

func softmax(s []float32, stride, rows, keys int, m, l, alpha []float32) (hidden bool) {
	return softmaxGeneric(s, stride, rows, keys, m, l, alpha)
}

func readSum(data []byte) uint32 { return readSumGeneric(data) }

func scaleScores(s []float32, stride, rows int, x []float32) { scaleScoresGeneric(s, stride, rows, x) }

func scaleWeights(p []float32, stride, rows int, x []float32, unit float32) {
	scaleWeightsGeneric(p, stride, rows, x, unit)
}

func divide(dst, a []float32, l float32) (finite bool) { return divideGeneric(dst, a, l) }

// There are no kernels for x in fixed point here.
func fixes() bool { return false }

func fix(form, []byte, []float32) bool { return false }

func average(dst []float32, weight []float64, o [][]float32, l float64) {
	averageGeneric(dst, weight, o, l, 0)
}

// fetch does nothing here: it is a hint.
func fetch([]float32, []int) {}

func gate(h, g, a, u []float32) { gateGeneric(h, g, a, u) }

func rowsFor(Elem) RowsFunc { return nil }
