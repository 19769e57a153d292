package simd

import (
	"sync"
	"unsafe"

	"golang.org/x/sys/cpu"
)

// architecture is the levels that amd64 has, best last.
var architecture = []string{Generic, AVX2, AVX512, VNNI, Dots}

const hasNEON = false

var (
	hasAVX2   = cpu.X86.HasAVX2 && cpu.X86.HasFMA && cpu.X86.HasF16C && cpu.X86.HasBMI2
	hasAVX512 = hasAVX2 && cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL
	hasVBMI   = cpu.X86.HasAVX512VBMI // only I4 wants it; without, it stays with AVX2
	hasVNNI   = hasAVX512 && hasVBMI && cpu.X86.HasAVX512VNNI && cpu.X86.HasAVX512GFNI
)

// inHalves says that the processor does 512 bits in two halves: AMD's family 25
// (Zen 3 and 4; only Zen 4 of it has AVX-512). Scores of 16-bit types then come from
// vectors of 256 bits, those of f32 in groups, too, whose sums are taken two rows at a time.
var inHalves = hasAVX512 && isFamily25()

func isFamily25() bool {
	const amd = 'A' | 'u'<<8 | 't'<<16 | 'h'<<24
	vendor, signature := cpuid()
	family, extended := signature>>8&0xf, signature>>20&0xff
	return vendor == amd && family+extended == 25
}

// scoresKernel and accumulateKernel are assembly for a fixed number of rows. They take
// heads side by side.
type (
	scoresKernel     func(s *float32, stride int, q *float32, dim int, k *byte, off *int, keys int, heads *int, ahead *byte, aheadOff *int, aheadKeys, aheadLines int)
	accumulateKernel func(o *float32, dim int, p *float32, stride int, alpha *float32, v *byte, off *int, keys int, heads *int, ahead *byte, aheadOff *int, aheadKeys, aheadLines int)
)

func (f scoresKernel) run(s *float32, stride int, q *float32, dim int, k *byte, off *int, keys int, heads *Heads, ahead *byte, aheadOff *int, aheadKeys, aheadLines int) {
	f(s, stride, q, dim, k, off, keys, (*int)(unsafe.Pointer(heads)), ahead, aheadOff, aheadKeys, aheadLines)
}

func (f accumulateKernel) run(o *float32, dim int, p *float32, stride int, alpha *float32, v *byte, off *int, keys int, heads *Heads, ahead *byte, aheadOff *int, aheadKeys, aheadLines int) {
	f(o, dim, p, stride, alpha, v, off, keys, (*int)(unsafe.Pointer(heads)), ahead, aheadOff, aheadKeys, aheadLines)
}

// inStretches says that kernels take several tiles.
const inStretches = true

// takesHeads reports whether kernels for type e take heads side by side: not where plain Go
// has to look at each tile first.
func takesHeads(e Elem) bool { return useVNNI || useAVX2 && e != E4M3 }

// minDim is the least row that the assembly takes: where it has no masked loads
// it reads the last 8 elements together, and NaN codes are looked for by 8.
const minDim = 8

func scoresFor(e Elem) HeadsScoresFunc {
	switch {
	case useAVX512 && inHalves && (e == F16 || e == BF16):
		return scoresBy(e, &scoresHalves[e], &sizesHalves, limitsAVX2[e])
	case useAVX512 && inHalves && e == F32:
		return scoresBy(e, over(&scoresSplits[e], &scoresAVX512[e]), &sizesAVX512, limitsAVX512[e])
	case useAVX512 && !inHalves && scoresWide[e][1] != nil:
		return scoresBy(e, &scoresWide[e], &sizesAVX512, limitsAVX512[e])
	case useVNNI && scoresVNNI[e][1] != nil:
		return scoresOfWhole(scoresBy(e, &scoresVNNI[e], &sizesVNNI, limits{}), scoresBy(e, &scoresAVX512[e], &sizesAVX512, limitsAVX512[e]))
	case useAVX512 && (e != I4 || hasVBMI):
		return scoresBy(e, &scoresAVX512[e], &sizesAVX512, limitsAVX512[e])
	case useAVX2:
		return scoresBy(e, &scoresAVX2[e], &sizes124, limitsAVX2[e])
	}
	return scoresPlain(e)
}

func accumulateFor(e Elem) HeadsAccumulateFunc {
	switch {
	case useAVX512 && inHalves && e == F32:
		rest := accumulateBy(e, &accumulateAVX512[e], &sizesAVX512, limitsAVX512[e])
		return accumulateOfWhole(turnRow, accumulateBy(e, over(&accumulateTurns[e], &accumulateAVX512[e]), &sizesTurns, limitsAVX512[e]), rest)
	case useAVX512 && !inHalves && accumulateWide[e][1] != nil:
		return accumulateBy(e, &accumulateWide[e], &sizesAVX512, limitsAVX512[e])
	case useVNNI && accumulateVNNI[e][1] != nil:
		return accumulateOfWhole(wholeRow, accumulateBy(e, &accumulateVNNI[e], &sizesVNNI, limits{}), accumulateBy(e, &accumulateAVX512[e], &sizesAVX512, limitsAVX512[e]))
	case useAVX512 && (e != I4 || hasVBMI):
		return accumulateBy(e, &accumulateAVX512[e], &sizesAVX512, limitsAVX512[e])
	case useAVX2:
		return accumulateBy(e, &accumulateAVX2[e], &sizes124, limitsAVX2[e])
	}
	return accumulatePlain(e)
}

// sizesAVX512: 32 registers hold the sums of any number of rows up to 8.
var sizesAVX512 = sizes{0, 1, 2, 3, 4, 5, 6, 7, 8}

// sizesTurns: registers hold three rows' sums of 128 elements; more rows take turns in pairs.
// One that is left reads a tile again, from the second cache.
var sizesTurns = sizes{0, 1, 2, 3, 4, 4, 6, 6, 8}

// over is the kernels of one level where it has them, and else those of another.
func over[K scoresKernel | accumulateKernel](first, other *blocks[K]) *blocks[K] {
	kernels := *other
	for n, k := range first {
		if k != nil {
			kernels[n] = k
		}
	}
	return &kernels
}

// sizesHalves: four rows meet four keys at a time.
var sizesHalves = sizes{0, 1, 2, 3, 4, 3, 3, 4, 4}

// wholeRow is what rows are multiples of for kernels that look codes up.
const wholeRow = 64

// scoresOfWhole takes kernels for whole rows where they are.
func scoresOfWhole(whole, any HeadsScoresFunc) HeadsScoresFunc {
	return func(s []float32, stride int, q []float32, rows, dim int, k Tile, heads *Heads, ahead Ahead) {
		if dim%wholeRow == 0 {
			whole(s, stride, q, rows, dim, k, heads, ahead)
			return
		}
		any(s, stride, q, rows, dim, k, heads, ahead)
	}
}

// accumulateOfWhole takes kernels for rows of a multiple of so many elements where they are.
func accumulateOfWhole(elements int, whole, any HeadsAccumulateFunc) HeadsAccumulateFunc {
	return func(o []float32, rows, dim int, p []float32, stride int, alpha []float32, v Tile, heads *Heads, ahead Ahead) {
		if dim%elements == 0 {
			whole(o, rows, dim, p, stride, alpha, v, heads, ahead)
			return
		}
		any(o, rows, dim, p, stride, alpha, v, heads, ahead)
	}
}

// With masked loads only E4M3's NaN is left to plain Go; without, rows below
// minDim and nibbles off the byte are, too.
var (
	limitsAVX512 = [NumElems]limits{E4M3: {least: minDim, nan: nanE4M3AVX512}}
	limitsAVX2   = [NumElems]limits{
		F32: {least: minDim}, F16: {least: minDim}, BF16: {least: minDim},
		E4M3: {least: minDim, nan: nanE4M3AVX2}, E5M2: {least: minDim}, I8: {least: minDim},
		I4: {least: minDim, whole: 8},
	}
)

var (
	dotAVX512 = [NumBlocks]dotKernel{Q4_0: dotQ4_0AVX512, Q4_1: dotQ4_1AVX512, Q8_0: dotQ8_0AVX512, Q4_K: dotQ4_KAVX512, Q5_K: dotQ5_KAVX512, Q6_K: dotQ6_KAVX512}
	dotAVX2   = [NumBlocks]dotKernel{Q4_0: dotQ4_0AVX2, Q4_1: dotQ4_1AVX2, Q8_0: dotQ8_0AVX2, Q4_K: dotQ4_KAVX2, Q5_K: dotQ5_KAVX2, Q6_K: dotQ6_KAVX2}
)

var (
	dequantiseAVX512 = [NumBlocks]dequantiseKernel{Q4_0: dequantiseQ4_0AVX512, Q4_1: dequantiseQ4_1AVX512, Q8_0: dequantiseQ8_0AVX512}
	dequantiseAVX2   = [NumBlocks]dequantiseKernel{Q4_0: dequantiseQ4_0AVX2, Q4_1: dequantiseQ4_1AVX2, Q8_0: dequantiseQ8_0AVX2}
)

func dequantise(b Block, dst []float32, src []byte) {
	kernel := dequantiseKernelOf(b)
	n := len(dst) / b.Elements()
	if n == 0 || kernel == nil {
		dequantiseGeneric(b, dst, src)
		return
	}
	_ = src[n*b.Bytes()-1]
	kernel(&dst[0], &src[0], n)
}

func dequantiseKernelOf(b Block) dequantiseKernel {
	switch {
	case useAVX512:
		return dequantiseAVX512[b]
	case useAVX2:
		return dequantiseAVX2[b]
	}
	return nil
}

// fixedKernel is assembly for blocks with an x in fixed point.
type fixedKernel = func(y *float32, rows int, row, x *byte, blocks int)

var fixedAVX512 = [NumBlocks]fixedKernel{
	Q4_0: fixedQ4_0AVX512, Q4_1: fixedQ4_1AVX512, Q8_0: fixedQ8_0AVX512, Q5_0: fixedQ5_0AVX512, Q5_1: fixedQ5_1AVX512,
	Q4_K: fixedQ4_KAVX512, Q5_K: fixedQ5_KAVX512, Q6_K: fixedQ6_KAVX512,
}

// fixes reports whether kernels for x in fixed point are in use.
func fixes() bool { return useVNNI }

// fix turns x into fixed point, and reports whether it could: infinity and NaN have none, and of numbers from 2¹¹⁹ on
// what a lane's sum begins with is too large for a float32.
func fix(f form, dst []byte, x []float32) bool {
	const tooLarge = (127 + 119) << 23
	turn := fixAVX512
	if f == spreadForm {
		turn = spreadAVX512
	}
	return turn(&dst[0], &x[0], len(x)/BlockElements) < tooLarge
}

// dotFixed multiplies by x in fixed point, where it has one.
func dotFixed(b Block, kernel fixedKernel, float DotFunc) DotFunc {
	f := formOf(b)
	return func(y []float32, v *Vector, data []byte) {
		x := v.forms[f].chunks
		if x == nil {
			float(y, v, data)
			return
		}
		if blocks := v.rows(b, y, data); blocks > 0 {
			if rest := v.restForms[f].chunks; rest != nil {
				dotTwice(kernel, y, data, b.RowBytes(len(v.x)), x, rest, blocks)
				return
			}
			kernel(&y[0], len(y), &data[0], &x[0], blocks)
		}
	}
}

// restRows is how many rows meet an x and then the rest of it, while they are in the cache.
const restRows = 64

var restSums = sync.Pool{New: func() any { return new([restRows]float32) }}

// dotTwice multiplies rows of so many blocks, size bytes each, with an x and with the rest of it.
func dotTwice(kernel fixedKernel, y []float32, data []byte, size int, x, rest []byte, blocks int) {
	room := restSums.Get().(*[restRows]float32)
	for len(y) > 0 {
		sums := room[:min(restRows, len(y))]
		kernel(&y[0], len(sums), &data[0], &x[0], blocks)
		kernel(&sums[0], len(sums), &data[0], &rest[0], blocks)
		Add(y[:len(sums)], sums)
		y, data = y[len(sums):], data[len(sums)*size:]
	}
	restSums.Put(room)
}

func dotFor(b Block) DotFunc {
	float := dotWidened(b)
	switch {
	case useAVX512 && dotAVX512[b] != nil:
		float = dotBy(b, dotAVX512[b])
	case useAVX2 && dotAVX2[b] != nil:
		float = dotBy(b, dotAVX2[b])
	case !useAVX2:
		float = dotPlain(b)
	}
	if fixes() {
		return dotFixed(b, fixedAVX512[b], float)
	}
	return float
}

// rowsKernel is assembly for rows of floats that follow one another.
type rowsKernel = func(y *float32, rows int, row *byte, x *float32, steps int)

// rowsAVX2 serves processors with AVX-512, too: wider vectors read no faster (docs/calibration.md).
var rowsAVX2 = [...]rowsKernel{F32: rowsF32AVX2, F16: rowsF16AVX2, BF16: rowsBF16AVX2}

func rowsFor(e Elem) RowsFunc {
	if !useAVX2 || int(e) >= len(rowsAVX2) {
		return nil
	}
	kernel := rowsAVX2[e]
	return func(y, x []float32, data []byte) {
		if len(y) == 0 {
			return
		}
		_ = data[len(y)*e.RowBytes(len(x))-1]
		kernel(&y[0], len(y), &data[0], &x[0], len(x)/RowStep)
	}
}

// narrowKernel is assembly that stores whole vectors of float32 as another type.
type narrowKernel = func(dst *byte, x *float32, vectors int)

var (
	narrowAVX512 = [NumElems]narrowKernel{F16: narrowF16AVX512, BF16: narrowBF16AVX512}
	narrowAVX2   = [NumElems]narrowKernel{F16: narrowF16AVX2, BF16: narrowBF16AVX2}
)

func narrow(dst []byte, e Elem, src []float32) {
	kernel, lanes := narrowAVX2[e], 8
	if useAVX512 {
		kernel, lanes = narrowAVX512[e], 16
	}
	n := len(src) / lanes
	if n == 0 || !useAVX2 || kernel == nil {
		narrowGeneric(dst, e, src)
		return
	}
	_ = dst[e.RowBytes(len(src))-1]
	kernel(&dst[0], &src[0], n)
	n *= lanes
	narrowGeneric(dst[e.RowBytes(n):], e, src[n:])
}

func gate(h, g, a, u []float32) {
	lanes := 8
	if useAVX512 {
		lanes = 16
	}
	n := len(h) / lanes
	if n == 0 || !useAVX2 {
		gateGeneric(h, g, a, u)
		return
	}
	if useAVX512 { // by their names: what a variable is called with would be taken to escape
		gateAVX512(&h[0], &g[0], &a[0], &u[0], n)
	} else {
		gateAVX2(&h[0], &g[0], &a[0], &u[0], n)
	}
	n *= lanes
	gateGeneric(h[n:], g[n:], a[n:], u[n:])
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

func divide(dst, a []float32, l float32) (finite bool) {
	if len(a) == 0 || !useAVX2 {
		return divideGeneric(dst, a, l)
	}
	_ = dst[len(a)-1]
	if useAVX512 {
		return divideAVX512(&dst[0], &a[0], len(a), l) == 0
	}
	return divideAVX2(&dst[0], &a[0], len(a), l) == 0
}

func average(dst []float32, weight []float64, o [][]float32, l float64) {
	half := 4
	if useAVX512 {
		half = 8
	}
	n := len(dst) / half * half
	if n == 0 || len(weight) == 0 || !useAVX2 {
		averageGeneric(dst, weight, o, l, 0)
		return
	}
	for b := range weight {
		_ = o[b][len(dst)-1]
	}
	list := (*byte)(unsafe.Pointer(&o[0]))
	if useAVX512 {
		averageAVX512(&dst[0], n, &weight[0], list, len(weight), l)
	} else {
		averageAVX2(&dst[0], n, &weight[0], list, len(weight), l)
	}
	averageGeneric(dst, weight, o, l, n)
}

func fetch(x []float32, at []int) {
	switch {
	case len(x) == 0 || len(at) == 0:
	case useAVX512:
		fetchAVX512(&x[0], &at[0], len(at))
	case useAVX2:
		fetchAVX2(&x[0], &at[0], len(at))
	}
}

func fetchBytes(data []byte) {
	lines := (len(data) + lineBytes - 1) / lineBytes
	switch {
	case lines == 0:
	case useAVX512:
		fetchBytesAVX512(&data[0], lines)
	case useAVX2:
		fetchBytesAVX2(&data[0], lines)
	}
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
