package simd

// Every arm64 CPU that Go runs on has NEON, and the kernels use no extension of it.
const hasNEON, hasAVX2, hasAVX512, hasVNNI, hasDots, inHalves = true, false, false, false, false, false

// architecture is the levels that arm64 has, best last.
var architecture = []string{Generic, NEON}

// limitsNEON: the kernels take all rows that have an element.
var limitsNEON = limits{least: 1}

// scoresKernel and accumulateKernel are assembly for a fixed number of rows, of one head.
type (
	scoresKernel     func(s *float32, stride int, q *float32, dim int, k *byte, off *int, keys int, ahead *byte, aheadOff *int, aheadKeys, aheadLines int)
	accumulateKernel func(o *float32, dim int, p *float32, stride int, alpha *float32, v *byte, off *int, keys int, ahead *byte, aheadOff *int, aheadKeys, aheadLines int)
)

func (f scoresKernel) run(s *float32, stride int, q *float32, dim int, k *byte, off *int, keys int, _ *Heads, ahead *byte, aheadOff *int, aheadKeys, aheadLines int) {
	f(s, stride, q, dim, k, off, keys, ahead, aheadOff, aheadKeys, aheadLines)
}

func (f accumulateKernel) run(o *float32, dim int, p *float32, stride int, alpha *float32, v *byte, off *int, keys int, _ *Heads, ahead *byte, aheadOff *int, aheadKeys, aheadLines int) {
	f(o, dim, p, stride, alpha, v, off, keys, ahead, aheadOff, aheadKeys, aheadLines)
}

// inStretches says that kernels take one tile.
const inStretches = false

func scoresFor(e Elem) HeadsScoresFunc {
	if useNEON {
		return scoresBy(e, &scoresNEON[e], &sizes124, limitsNEON)
	}
	return scoresPlain(e)
}

func accumulateFor(e Elem) HeadsAccumulateFunc {
	if useNEON {
		return accumulateBy(e, &accumulateNEON[e], &sizes124, limitsNEON)
	}
	return accumulatePlain(e)
}

func softmax(s []float32, stride, rows, keys int, m, l, alpha []float32) (hidden bool) {
	if rows == 0 || keys == 0 || !useNEON {
		return softmaxGeneric(s, stride, rows, keys, m, l, alpha)
	}
	_, _, _, _ = s[(rows-1)*stride+keys-1], m[rows-1], l[rows-1], alpha[rows-1]
	return softmaxNEON(&s[0], stride, rows, keys, &m[0], &l[0], &alpha[0]) != 0
}

var (
	dotNEON        = [NumBlocks]dotKernel{Q4_0: dotQ4_0NEON, Q4_1: dotQ4_1NEON, Q8_0: dotQ8_0NEON}
	dequantiseNEON = [NumBlocks]dequantiseKernel{Q4_0: dequantiseQ4_0NEON, Q4_1: dequantiseQ4_1NEON, Q8_0: dequantiseQ8_0NEON}
)

func dequantise(b Block, dst []float32, src []byte) {
	blocks := len(dst) / b.Elements()
	if blocks == 0 || !useNEON || dequantiseNEON[b] == nil {
		dequantiseGeneric(b, dst, src)
		return
	}
	_ = src[blocks*b.Bytes()-1]
	dequantiseNEON[b](&dst[0], &src[0], blocks)
}

func dotFor(b Block) DotFunc {
	switch {
	case useNEON && dotNEON[b] != nil:
		return dotBy(b, dotNEON[b])
	case useNEON:
		return dotWidened(b)
	}
	return dotPlain(b)
}

func scaleScores(s []float32, stride, rows int, x []float32) {
	keys := len(x)
	if rows == 0 || keys == 0 || !useNEON {
		scaleScoresGeneric(s, stride, rows, x)
		return
	}
	_ = s[(rows-1)*stride+keys-1]
	scaleScoresNEON(&s[0], stride, rows, keys, &x[0])
}

func scaleWeights(p []float32, stride, rows int, x []float32, unit float32) {
	keys := len(x)
	if rows == 0 || keys == 0 || !useNEON {
		scaleWeightsGeneric(p, stride, rows, x, unit)
		return
	}
	_ = p[(rows-1)*stride+keys-1]
	scaleWeightsNEON(&p[0], stride, rows, keys, &x[0], unit)
}

func readSum(data []byte) uint32 {
	n := len(data) &^ 1023
	if n == 0 || !useNEON {
		return readSumGeneric(data)
	}
	return readNEON(&data[0], n) ^ readSumGeneric(data[n:])
}
