//go:build !amd64

package simd

// stripColumns is the columns of a panel's strips: none here, where panels are rows.
func stripColumns() int { return 0 }

func multiplyPanel(int, []float32, int, *[panelRows]float32, []float32, int, int, []float32) {
	panic("simd: a panel of strips")
}

func turn(Elem, []float32, int, int, []byte, []int) { panic("simd: a panel of strips") }
