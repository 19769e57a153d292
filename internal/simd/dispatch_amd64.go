package simd

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

var (
	hasAVX2   = cpu.X86.HasAVX2 && cpu.X86.HasFMA && cpu.X86.HasF16C && cpu.X86.HasBMI2
	hasAVX512 = hasAVX2 && cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL
	hasVBMI   = cpu.X86.HasAVX512VBMI // only I4 wants it; without, it stays with AVX2
)

// scoresKernel and accumulateKernel are assembly for a fixed number of rows.
type (
	scoresKernel     = func(s *float32, stride int, q *float32, dim int, k *byte, off *int, keys int, ahead *byte, aheadOff *int, aheadKeys, aheadLines int)
	accumulateKernel = func(o *float32, dim int, p *float32, stride int, alpha *float32, v *byte, off *int, keys int, ahead *byte, aheadOff *int, aheadKeys, aheadLines int)
)

// blocks holds the kernels for 1, 2, 4 and 8 rows.
type blocks[K any] [4]K

// minDim is the least row that the assembly takes: where it has no masked loads
// it reads the last 8 elements together, and NaN codes are looked for by 8.
const minDim = 8

func scoresFor(e Elem) ScoresFunc {
	switch {
	case useAVX512 && (e != I4 || hasVBMI):
		return scoresBy(e, &scoresAVX512[e], nanE4M3AVX512, 3, e == E4M3, false)
	case useAVX2:
		return scoresBy(e, &scoresAVX2[e], nanE4M3AVX2, 2, true, e == I4)
	}
	return scoresPlain(e)
}

func accumulateFor(e Elem) AccumulateFunc {
	switch {
	case useAVX512 && (e != I4 || hasVBMI):
		return accumulateBy(e, &accumulateAVX512[e], nanE4M3AVX512, 3, e == E4M3, false)
	case useAVX2:
		return accumulateBy(e, &accumulateAVX2[e], nanE4M3AVX2, 2, true, e == I4)
	}
	return accumulatePlain(e)
}

// nanFunc looks for NaN codes in rows of at least 8 bytes.
type nanFunc func(data *byte, off *int, keys, bytes int) bool

// in looks for NaN codes in a tile: rows that follow one another are one long row.
func (f nanFunc) in(t Tile, bytes int) bool {
	rows := len(t.Off)
	for i, off := range t.Off[1:] {
		if off-t.Off[i] != bytes {
			return f(unsafe.SliceData(t.Data), &t.Off[0], rows, bytes)
		}
	}
	return f(unsafe.SliceData(t.Data), &t.Off[0], 1, rows*bytes)
}

// scoresBy composes any number of rows from blocks of at most 2^top rows; what
// the kernels do not take (rows below minDim where that is asked for, E4M3 with
// NaN in it, nibbles off the byte) is left to plain Go.
func scoresBy(e Elem, kernels *blocks[scoresKernel], nan nanFunc, top int, atLeast, whole bool) ScoresFunc {
	plain := scoresPlain(e)
	return func(s []float32, stride int, q []float32, rows, dim int, k Tile, ahead Ahead) {
		keys := len(k.Off)
		if keys == 0 || rows == 0 {
			return
		}
		if atLeast && dim < minDim || whole && dim%minDim != 0 || e == E4M3 && nan.in(k, dim) {
			plain(s, stride, q, rows, dim, k, ahead)
			return
		}
		_, _ = s[(rows-1)*stride+keys-1], q[rows*dim-1]
		data, off := unsafe.SliceData(k.Data), &k.Off[0]
		aheadData, aheadOff, aheadKeys, aheadLines := ahead.args()
		for i, r := top, 0; r < rows; {
			if r+1<<i > rows {
				i--
				continue
			}
			kernels[i](&s[r*stride], stride, &q[r*dim], dim, data, off, keys, aheadData, aheadOff, aheadKeys, aheadLines)
			r += 1 << i
			aheadKeys = 0
		}
	}
}

// accumulateBy is scoresBy for accumulation.
func accumulateBy(e Elem, kernels *blocks[accumulateKernel], nan nanFunc, top int, atLeast, whole bool) AccumulateFunc {
	plain := accumulatePlain(e)
	return func(o []float32, rows, dim int, p []float32, stride int, alpha []float32, v Tile, ahead Ahead) {
		keys := len(v.Off)
		if rows == 0 || dim == 0 {
			return
		}
		if keys == 0 || atLeast && dim < minDim || whole && dim%minDim != 0 || e == E4M3 && nan.in(v, dim) {
			plain(o, rows, dim, p, stride, alpha, v, ahead)
			return
		}
		_, _, _ = o[rows*dim-1], p[(rows-1)*stride+keys-1], alpha[rows-1]
		data, off := unsafe.SliceData(v.Data), &v.Off[0]
		aheadData, aheadOff, aheadKeys, aheadLines := ahead.args()
		for i, r := top, 0; r < rows; {
			if r+1<<i > rows {
				i--
				continue
			}
			kernels[i](&o[r*dim], dim, &p[r*stride], stride, &alpha[r], data, off, keys, aheadData, aheadOff, aheadKeys, aheadLines)
			r += 1 << i
			aheadKeys = 0
		}
	}
}

// args are the arguments of the assembly; no keys where there is nothing to fetch.
func (a Ahead) args() (data *byte, off *int, keys, lines int) {
	if len(a.Off) == 0 || a.Bytes <= 0 {
		return nil, nil, 0, 0
	}
	return unsafe.SliceData(a.Data), &a.Off[0], len(a.Off), (a.Bytes + 63) / 64
}

// dotKernel and dequantiseKernel are assembly for blocks.
type (
	dotKernel        = func(y *float32, rows int, row *byte, x *float32, blocks int)
	dequantiseKernel = func(dst *float32, src *byte, blocks int)
)

var (
	dotAVX512 = [NumBlocks]dotKernel{Q4_0: dotQ4_0AVX512, Q4_1: dotQ4_1AVX512, Q8_0: dotQ8_0AVX512}
	dotAVX2   = [NumBlocks]dotKernel{Q4_0: dotQ4_0AVX2, Q4_1: dotQ4_1AVX2, Q8_0: dotQ8_0AVX2}
)

var (
	dequantiseAVX512 = [NumBlocks]dequantiseKernel{Q4_0: dequantiseQ4_0AVX512, Q4_1: dequantiseQ4_1AVX512, Q8_0: dequantiseQ8_0AVX512}
	dequantiseAVX2   = [NumBlocks]dequantiseKernel{Q4_0: dequantiseQ4_0AVX2, Q4_1: dequantiseQ4_1AVX2, Q8_0: dequantiseQ8_0AVX2}
)

func dequantise(b Block, dst []float32, src []byte) {
	blocks := len(dst) / BlockElements
	if blocks == 0 || !useAVX2 {
		dequantiseGeneric(b, dst, src)
		return
	}
	_ = src[blocks*b.Bytes()-1]
	if useAVX512 {
		dequantiseAVX512[b](&dst[0], &src[0], blocks)
	} else {
		dequantiseAVX2[b](&dst[0], &src[0], blocks)
	}
}

func dotFor(b Block) DotFunc {
	switch {
	case useAVX512:
		return dotBy(b, dotAVX512[b])
	case useAVX2:
		return dotBy(b, dotAVX2[b])
	}
	return dotPlain(b)
}

func dotBy(b Block, kernel dotKernel) DotFunc {
	return func(y, x []float32, data []byte) {
		blocks := len(x) / BlockElements
		if len(y) == 0 || blocks == 0 {
			clear(y)
			return
		}
		_ = data[len(y)*blocks*b.Bytes()-1]
		kernel(&y[0], len(y), &data[0], &x[0], blocks)
	}
}

func softmax(s []float32, stride, rows, keys int, m, l, alpha []float32) (hidden bool) {
	if rows == 0 || keys == 0 || !useAVX2 {
		return softmaxGeneric(s, stride, rows, keys, m, l, alpha)
	}
	_, _, _, _ = s[(rows-1)*stride+keys-1], m[rows-1], l[rows-1], alpha[rows-1]
	if useAVX512 {
		return softmaxAVX512(&s[0], stride, rows, keys, &m[0], &l[0], &alpha[0]) != 0
	}
	return softmaxAVX2(&s[0], stride, rows, keys, &m[0], &l[0], &alpha[0]) != 0
}

func scaleScores(s []float32, stride, rows int, x []float32) {
	keys := len(x)
	if rows == 0 || keys == 0 || !useAVX2 {
		scaleScoresGeneric(s, stride, rows, x)
		return
	}
	_ = s[(rows-1)*stride+keys-1]
	if useAVX512 {
		scaleScoresAVX512(&s[0], stride, rows, keys, &x[0])
		return
	}
	scaleScoresAVX2(&s[0], stride, rows, keys, &x[0])
}

func scaleWeights(p []float32, stride, rows int, x []float32, unit float32) {
	keys := len(x)
	if rows == 0 || keys == 0 || !useAVX2 {
		scaleWeightsGeneric(p, stride, rows, x, unit)
		return
	}
	_ = p[(rows-1)*stride+keys-1]
	if useAVX512 {
		scaleWeightsAVX512(&p[0], stride, rows, keys, &x[0], unit)
		return
	}
	scaleWeightsAVX2(&p[0], stride, rows, keys, &x[0], unit)
}

func readSum(data []byte) uint32 {
	n := len(data) &^ 1023
	if n == 0 || !useAVX2 {
		return readSumGeneric(data)
	}
	rest := readSumGeneric(data[n:])
	if useAVX512 {
		return readAVX512(&data[0], n) ^ rest
	}
	return readAVX2(&data[0], n) ^ rest
}
