package simd

import "unsafe"

// panelKernel is assembly for a fixed number of rows of x and a strip.
type panelKernel = func(y *float32, stride int, alpha, x *float32, xStride, dim int, w *float32)

// turnKernel is assembly that turns rows, as many as a vector has lanes, into columns.
type turnKernel = func(w *float32, step int, data *byte, off *int, chunks int)

var (
	panelsAVX512 = [panelRows + 1]panelKernel{1: panel1AVX512, 2: panel2AVX512, 3: panel3AVX512, 4: panel4AVX512, 5: panel5AVX512, 6: panel6AVX512}
	panelsAVX2   = [panelRows + 1]panelKernel{1: panel1AVX2, 2: panel2AVX2, 3: panel3AVX2, 4: panel4AVX2, 5: panel5AVX2, 6: panel6AVX2}
	turnsAVX512  = [...]turnKernel{F32: turnF32AVX512, F16: turnF16AVX512, BF16: turnBF16AVX512}
	turnsAVX2    = [...]turnKernel{F32: turnF32AVX2, F16: turnF16AVX2, BF16: turnBF16AVX2}
)

// stripColumns is the columns of a panel's strips, 0 where panels are rows.
func stripColumns() int {
	switch {
	case useAVX512:
		return 64
	case useAVX2:
		return 16
	}
	return 0
}

// multiplyPanel computes y[i,j] = y[i,j]·α[i] + Σ_d x[i,d]·w[d,j] for so many rows i and the columns j of a strip.
func multiplyPanel(rows int, y []float32, stride int, alpha *[panelRows]float32, x []float32, xStride, dim int, w []float32) {
	kernels := &panelsAVX2
	if useAVX512 {
		kernels = &panelsAVX512
	}
	kernels[rows](&y[0], stride, &alpha[0], &x[0], xStride, dim, &w[0])
}

// turn writes w[d·step+j] = row_j[d] of rows of type e, as many as a strip has columns.
func turn(e Elem, w []float32, step, dim int, data []byte, off []int) {
	kernel, lanes := turnsAVX2[e], 8
	if useAVX512 {
		kernel, lanes = turnsAVX512[e], 16
	}
	whole := dim / lanes * lanes
	if whole > 0 {
		for j := 0; j < len(off); j += lanes {
			kernel(&w[j], step, unsafe.SliceData(data), &off[j], whole/lanes)
		}
	}
	for d := whole; d < dim; d++ {
		for j, at := range off {
			w[d*step+j] = widenAt(e, data[at:], d)
		}
	}
}
