//go:build !amd64 && !arm64

package simd

const hasNEON, hasAVX2, hasAVX512, hasVNNI, hasDots, inHalves = false, false, false, false, false, false

// architecture is the levels that any other architecture has.
var architecture = []string{Generic}

func scoresFor(e Elem) HeadsScoresFunc         { return scoresPlain(e) }
func accumulateFor(e Elem) HeadsAccumulateFunc { return accumulatePlain(e) }

func dequantise(b Block, dst []float32, src []byte) { dequantiseGeneric(b, dst, src) }

func dotFor(b Block) DotFunc { return dotPlain(b) }

func softmax(s []float32, stride, rows, keys int, m, l, alpha []float32) (hidden bool) {
	return softmaxGeneric(s, stride, rows, keys, m, l, alpha)
}

func readSum(data []byte) uint32 { return readSumGeneric(data) }

func scaleScores(s []float32, stride, rows int, x []float32) { scaleScoresGeneric(s, stride, rows, x) }

func scaleWeights(p []float32, stride, rows int, x []float32, unit float32) {
	scaleWeightsGeneric(p, stride, rows, x, unit)
}
