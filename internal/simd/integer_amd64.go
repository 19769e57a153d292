package simd

import "unsafe"

// integerDigitsKernel, integerScoresKernel and integerAccumulateKernel are assembly, the latter two
// for a fixed number of rows.
type (
	integerDigitsKernel     = func(dst *byte, q *float32, rows, dim int) (coarse, loss float32)
	integerScoresKernel     func(s *float32, stride int, q *byte, dim int, k *byte, off *int, keys int, scales *float32, most float32, ahead *byte, aheadOff *int, aheadKeys, aheadLines int) (left int)
	integerAccumulateKernel = func(o *float32, dim int, p *float32, stride int, alpha *float32, v *byte, off *int, keys int, scales, most *float32, tile int, ahead *byte, aheadOff *int, aheadKeys, aheadLines int) (left int)
)

// sizesVNNI: four rows have 16 sums of four digits, or of four vectors beside the
// tables of 8-bit floats.
var sizesVNNI = sizes{1: 1, 2: 2, 3: 3, 4: 4, 5: 4, 6: 4, 7: 4, 8: 4}

var integerDigitsVNNI = [NumElems]integerDigitsKernel{I8: integerDigitsI8VNNI, I4: integerDigitsI4VNNI}

// asIntegers reports whether the current level has integer kernels for type e.
func asIntegers(e Elem) bool { return useVNNI && integerDigitsVNNI[e] != nil }

func integerFor(e Elem) *Integer {
	if !asIntegers(e) {
		return nil
	}
	toDigits := integerDigitsVNNI[e]
	return &Integer{
		block: func(rows int) int { return sizesVNNI[min(rows, maxBlock)] },
		toDigits: func(dst []byte, q []float32, rows, dim int) (coarse, loss float32) {
			_, _ = dst[rows*DigitsBytes(dim)-1], q[rows*dim-1]
			return toDigits(&dst[0], &q[0], rows, dim)
		},
		coarse: coarseScores(e), fine: integerScoresBy(&integerScores4VNNI[e]), floatScores: Scores(e),
		light: integerSumsBy(&integerAccumulate2VNNI[e]), heavy: integerSumsBy(&integerAccumulate3VNNI[e]), floatSums: Accumulate(e),
	}
}

// coarseScores go key by key where nothing is to be fetched.
func coarseScores(e Elem) integerScores {
	blocks := integerScoresBy(&integerScores3VNNI[e])
	return func(s []float32, stride int, q []byte, rows, dim int, k Tile, scales []float32, most float32, ahead Ahead) (done int) {
		if len(ahead.Off) == 0 && keyByKey(e, dim, rows) {
			return integerScoresKernel(integerScores3I8of128VNNI).scores(s, stride, q, rows, dim, k, scales, most, ahead)
		}
		return blocks(s, stride, q, rows, dim, k, scales, most, ahead)
	}
}

func integerScoresBy(kernels *blocks[integerScoresKernel]) integerScores {
	return func(s []float32, stride int, q []byte, rows, dim int, k Tile, scales []float32, most float32, ahead Ahead) (done int) {
		return kernels[rows].scores(s, stride, q, rows, dim, k, scales, most, ahead)
	}
}

func (f integerScoresKernel) scores(s []float32, stride int, q []byte, rows, dim int, k Tile, scales []float32, most float32, ahead Ahead) (done int) {
	keys := len(k.Off)
	_, _ = s[(rows-1)*stride+keys-1], q[rows*DigitsBytes(dim)-1]
	aheadData, aheadOff, aheadKeys, aheadLines := ahead.args()
	return keys - f(&s[0], stride, &q[0], dim, unsafe.SliceData(k.Data), &k.Off[0], keys, ofKeys(scales, keys), most, aheadData, aheadOff, aheadKeys, aheadLines)
}

func integerSumsBy(accumulate *blocks[integerAccumulateKernel]) integerSums {
	return func(o []float32, rows, dim int, p []float32, stride int, alpha []float32, v Tile, scales, most []float32, tile int, ahead Ahead) (done int) {
		keys := len(v.Off)
		_, _, _, _ = o[rows*dim-1], p[(rows-1)*stride+keys-1], alpha[rows-1], most[rows-1]
		aheadData, aheadOff, aheadKeys, aheadLines := ahead.args()
		return keys - accumulate[rows](&o[0], dim, &p[0], stride, &alpha[0], unsafe.SliceData(v.Data), &v.Off[0], keys, ofKeys(scales, keys), &most[0], tile, aheadData, aheadOff, aheadKeys, aheadLines)
	}
}

// ofKeys is the first of as many scales as there are keys, or nil where there are none.
func ofKeys(scales []float32, keys int) *float32 {
	if len(scales) == 0 {
		return nil
	}
	return &scales[:keys][0]
}
