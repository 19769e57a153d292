package simd

import "unsafe"

// integerDigitsKernel, integerScoresKernel and integerAccumulateKernel are assembly, the latter two
// for a fixed number of rows.
type (
	integerDigitsKernel     = func(dst *byte, q *float32, rows, dim int) (coarse, loss float32)
	integerScoresKernel     = func(s *float32, stride int, q *byte, dim int, k *byte, off *int, keys int, scales *float32, most float32, ahead *byte, aheadOff *int, aheadKeys, aheadLines int) (beyond bool)
	integerAccumulateKernel = func(o *float32, dim int, p *float32, stride int, alpha *float32, v *byte, off *int, keys int, scales, most *float32, ahead *byte, aheadOff *int, aheadKeys, aheadLines int) (done bool)
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
		toDigits: func(dst []byte, q []float32, rows, dim int) (coarse, loss float32) {
			_, _ = dst[rows*DigitsBytes(dim)-1], q[rows*dim-1]
			return toDigits(&dst[0], &q[0], rows, dim)
		},
		coarse: integerScoresBy(&integerScores3VNNI[e], &sizesVNNI), fine: integerScoresBy(&integerScores4VNNI[e], &sizesVNNI),
		light: integerSumsBy(&integerAccumulate2VNNI[e], &sizesVNNI), heavy: integerSumsBy(&integerAccumulate3VNNI[e], &sizesVNNI),
	}
}

// integerScoresBy composes any number of rows from blocks.
func integerScoresBy(scores *blocks[integerScoresKernel], sizes *sizes) integerScores {
	return func(s []float32, stride int, q []byte, rows, dim int, k Tile, scales []float32, most float32, ahead Ahead) bool {
		keys, pitch := len(k.Off), DigitsBytes(dim)
		_, _, _ = s[(rows-1)*stride+keys-1], q[rows*pitch-1], scales[keys-1]
		data, off := unsafe.SliceData(k.Data), &k.Off[0]
		aheadData, aheadOff, aheadKeys, aheadLines := ahead.args()
		for r := 0; r < rows; {
			n := sizes[min(rows-r, maxBlock)]
			if scores[n](&s[r*stride], stride, &q[r*pitch], dim, data, off, keys, &scales[0], most, aheadData, aheadOff, aheadKeys, aheadLines) {
				return false
			}
			r += n
			aheadKeys = 0
		}
		return true
	}
}

// integerSumsBy is the sums of a block of rows, as many as a kernel takes.
func integerSumsBy(accumulate *blocks[integerAccumulateKernel], sizes *sizes) integerSums {
	return func(o []float32, rows, dim int, p []float32, stride int, alpha []float32, v Tile, scales, most []float32, ahead Ahead) (done int) {
		keys, n := len(v.Off), sizes[min(rows, maxBlock)]
		_, _, _, _ = o[n*dim-1], p[(n-1)*stride+keys-1], alpha[n-1], most[n-1]
		if len(scales) > 0 {
			_ = scales[keys-1]
		}
		aheadData, aheadOff, aheadKeys, aheadLines := ahead.args()
		if accumulate[n](&o[0], dim, &p[0], stride, &alpha[0], unsafe.SliceData(v.Data), &v.Off[0], keys, unsafe.SliceData(scales), &most[0], aheadData, aheadOff, aheadKeys, aheadLines) {
			return n
		}
		return 0
	}
}
