package simd

import "unsafe"

// Panel is rows, at most [TileKeys], widened to float32 in the form in which they meet many rows of x: reading
// and unpacking them once serves all of these. It may be set again and again.
//
// Where there are kernels for it, that is columns: strips of some, element by element, so that a product needs
// no sum across a vector. Elsewhere it is rows.
type Panel struct {
	rows, dim, strip int
	w                []float32 // strips [dim, strip], or [rows, dim] where strip is 0
	wide             []float32 // rows of blocks, widened
	off              [TileKeys]int
	part             []float32 // sums of columns that y has no room beside
}

// Set makes p of the tile's rows, dim elements of type e each: F32, F16 or BF16.
func (p *Panel) Set(e Elem, t Tile, dim int) {
	p.rows, p.dim, p.strip = len(t.Off), dim, stripColumns()
	if p.rows == 0 || dim == 0 {
		return
	}
	if p.strip == 0 {
		p.w = atLeast(p.w, p.rows*dim)
		for j, off := range t.Off {
			Widen(p.w[j*dim:(j+1)*dim], e, t.Data[off:])
		}
		return
	}
	strips := (p.rows + p.strip - 1) / p.strip
	p.w = atLeast(p.w, strips*p.strip*dim)
	n := copy(p.off[:], t.Off)
	for ; n%p.strip != 0; n++ {
		p.off[n] = t.Off[p.rows-1] // columns that nobody asks for
	}
	for s := range strips {
		turn(e, p.w[s*p.strip*dim:][:p.strip*dim], p.strip, dim, t.Data, p.off[s*p.strip:][:p.strip])
	}
}

// SetBlocks makes p of rows of blocks: dim elements, whole blocks, at each offset of the tile.
func (p *Panel) SetBlocks(b Block, t Tile, dim int) {
	p.wide = atLeast(p.wide, len(t.Off)*dim)
	var rows [TileKeys]int
	for j, off := range t.Off {
		Dequantise(b, p.wide[j*dim:(j+1)*dim], t.Data[off:])
		rows[j] = 4 * j * dim
	}
	p.Set(F32, Tile{floatBytes(p.wide), rows[:len(t.Off)]}, dim)
}

// Multiply computes
//
//	y[i·stride+j] = Σ_d x[i·dim+d]·row_j[d],  i < n, j < the rows of p
//
// in float32, and touches no other element of y.
func (p *Panel) Multiply(y []float32, stride int, x []float32, n int) {
	switch {
	case p.rows == 0 || n == 0:
	case p.dim == 0:
		for i := range n {
			clear(y[i*stride:][:p.rows])
		}
	case p.strip == 0:
		for j := range p.rows {
			p.off[j] = 4 * j * p.dim
		}
		Scores(F32)(y, stride, x, n, p.dim, Tile{floatBytes(p.w), p.off[:p.rows]}, Ahead{})
	default:
		_, _ = y[(n-1)*stride+p.rows-1], x[n*p.dim-1]
		for d := 0; d < p.dim; d += panelDepth {
			p.add(y, stride, x, n, d)
		}
	}
}

// add adds what the next panelDepth elements from d on contribute.
func (p *Panel) add(y []float32, stride int, x []float32, n, d int) {
	depth, whole := min(panelDepth, p.dim-d), p.rows/p.strip*p.strip
	alpha := &panelFresh
	if d > 0 {
		alpha = &panelMore
	}
	for i := 0; i < n; i += panelRows {
		rows := min(panelRows, n-i)
		for j := 0; j < whole; j += p.strip {
			multiplyPanel(rows, y[i*stride+j:], stride, alpha, x[i*p.dim+d:], p.dim, depth, p.w[j*p.dim+d*p.strip:])
		}
		if whole < p.rows {
			p.part = atLeast(p.part, panelRows*p.strip)
			multiplyPanel(rows, p.part, p.strip, &panelFresh, x[i*p.dim+d:], p.dim, depth, p.w[whole*p.dim+d*p.strip:])
			for r := range rows {
				addOrCopy(y[(i+r)*stride+whole:][:p.rows-whole], p.part[r*p.strip:], d > 0)
			}
		}
	}
}

func addOrCopy(to, from []float32, add bool) {
	if !add {
		copy(to, from)
		return
	}
	for j := range to {
		to[j] += from[j]
	}
}

// panelDepth is how many elements of all rows are met at a time: those of a panel, 256 KB, stay in a core's second
// cache while all rows of x pass.
const panelDepth = 1024 // docs/calibration.md

// panelRows is the most rows of x that a kernel takes.
const panelRows = 6

// panelFresh and panelMore are what kernels multiply y with.
var (
	panelFresh [panelRows]float32
	panelMore  = [panelRows]float32{1, 1, 1, 1, 1, 1}
)

// atLeast is s with n elements, of whatever values.
func atLeast(s []float32, n int) []float32 {
	if cap(s) < n {
		return make([]float32, n)
	}
	return s[:n]
}

// floatBytes is the memory of x.
func floatBytes(x []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}
