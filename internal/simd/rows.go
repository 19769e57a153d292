package simd

// RowsFunc computes
//
//	y[r] = Σ_c row_r[c]·x[c],  r < len(y), c < len(x)
//
// in float32. The rows, of len(x) elements each, a multiple of [RowStep] and not 0, follow one another in data.
type RowsFunc func(y, x []float32, data []byte)

// RowStep is what the length of the rows of a [RowsFunc] is a multiple of.
const RowStep = 32

// Rows returns the kernel of the current level for rows of type e, which reads them as fast as memory yields them. It is
// nil where there is none: [Scores] then do the same.
func Rows(e Elem) RowsFunc { return rowsFor(e) }
