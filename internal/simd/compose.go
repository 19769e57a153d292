//go:build amd64 || arm64

package simd

import "unsafe"

// blocks holds the kernels by their number of rows, nil where there is none.
type blocks[K any] [maxBlock + 1]K

// maxBlock is the most rows that a kernel takes.
const maxBlock = MaxRows

// sizes tells, for so many rows that are left, up to maxBlock, how many the next
// kernel takes. A key is read, and unpacked, once a kernel.
type sizes [maxBlock + 1]int

// sizes124 are those of a level with kernels for 1, 2 and 4 rows.
var sizes124 = sizes{1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 4, 8: 4}

// limits are what kernels do not take, which is left to plain Go.
type limits struct {
	least int     // rows of fewer elements
	whole int     // rows that are not a multiple of so many elements, where it is not 0
	nan   nanFunc // tiles in which it finds a NaN, where it is not nil
}

func (l *limits) exclude(t Tile, dim int) bool {
	return dim < l.least || l.whole != 0 && dim%l.whole != 0 || l.nan != nil && l.nan.in(t, dim)
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

// scoresBy composes any number of rows from blocks.
func scoresBy(e Elem, kernels *blocks[scoresKernel], sizes *sizes, limits limits) (f HeadsScoresFunc) {
	plain := scoresPlain(e)
	f = func(s []float32, stride int, q []float32, rows, dim int, k Tile, heads *Heads, ahead Ahead) {
		keys := len(k.Off)
		if keys == 0 || rows == 0 {
			return
		}
		if heads != nil && limits.nan != nil { // each head's tile is looked at
			f.oneByOne(s, stride, q, rows, dim, k, heads, ahead)
			return
		}
		if limits.exclude(k, dim) {
			plain(s, stride, q, rows, dim, k, heads, ahead)
			return
		}
		last := heads.last()
		_, _ = s[last.Scores+(rows-1)*stride+keys-1], q[last.Rows+rows*dim-1]
		data, off := unsafe.SliceData(k.Data), &k.Off[0]
		aheadData, aheadOff, aheadKeys, aheadLines := ahead.args()
		for r := 0; r < rows; {
			n := sizes[min(rows-r, maxBlock)]
			kernels[n].run(&s[r*stride], stride, &q[r*dim], dim, data, off, keys, heads, aheadData, aheadOff, aheadKeys, aheadLines)
			r += n
			aheadKeys = 0
		}
	}
	return f
}

// accumulateBy is scoresBy for accumulation.
func accumulateBy(e Elem, kernels *blocks[accumulateKernel], sizes *sizes, limits limits) (f HeadsAccumulateFunc) {
	plain := accumulatePlain(e)
	f = func(o []float32, rows, dim int, p []float32, stride int, alpha []float32, v Tile, heads *Heads, ahead Ahead) {
		keys := len(v.Off)
		if rows == 0 || dim == 0 {
			return
		}
		if heads != nil && limits.nan != nil {
			f.oneByOne(o, rows, dim, p, stride, alpha, v, heads, ahead)
			return
		}
		if heads == nil && keys > TileKeys {
			if !inStretches || limits.nan != nil || rows > maxBlock || sizes[rows] != rows {
				f.tiles(o, rows, dim, p, stride, alpha, v, ahead)
				return
			}
			heads = tileByTile
		}
		if keys == 0 || limits.exclude(v, dim) {
			plain(o, rows, dim, p, stride, alpha, v, heads, ahead)
			return
		}
		last := heads.last()
		_, _, _ = o[last.Rows+last.Partial+rows*dim-1], p[last.Scores+(rows-1)*stride+keys-1], alpha[last.Alpha+rows-1]
		data, off := unsafe.SliceData(v.Data), &v.Off[0]
		aheadData, aheadOff, aheadKeys, aheadLines := ahead.args()
		for r := 0; r < rows; {
			n := sizes[min(rows-r, maxBlock)]
			kernels[n].run(&o[r*dim], dim, &p[r*stride], stride, &alpha[r], data, off, keys, heads, aheadData, aheadOff, aheadKeys, aheadLines)
			r += n
			aheadKeys = 0
		}
	}
	return f
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

func dotBy(b Block, kernel dotKernel) DotFunc {
	return func(y []float32, v *Vector, data []byte) {
		if blocks := v.rows(b, y, data); blocks > 0 {
			kernel(&y[0], len(y), &data[0], &v.x[0], blocks)
		}
	}
}

// rows is how many blocks of x each of the rows y has in data, 0 where there is
// nothing to compute.
func (v *Vector) rows(b Block, y []float32, data []byte) int {
	blocks := len(v.x) / b.Elements()
	if len(y) == 0 || blocks == 0 {
		clear(y)
		return 0
	}
	_ = data[len(y)*blocks*b.Bytes()-1]
	return blocks
}

// widenedRows is how many rows are widened at a time.
const widenedRows = 8

// dotWidened is for blocks without a kernel of their own: rows become float32 first.
func dotWidened(b Block) DotFunc {
	return func(y []float32, v *Vector, data []byte) {
		if v.rows(b, y, data) == 0 {
			return
		}
		n, size := len(v.x), b.RowBytes(len(v.x))
		room, scores := make([]float32, widenedRows*n), Scores(F32)
		tile := Tile{Data: unsafe.Slice((*byte)(unsafe.Pointer(&room[0])), 4*len(room))}
		var off [widenedRows]int
		for i := range off {
			off[i] = 4 * n * i
		}
		for len(y) > 0 {
			rows := min(widenedRows, len(y))
			dequantise(b, room[:rows*n], data)
			tile.Off = off[:rows]
			scores(y, rows, v.x, 1, n, tile, Ahead{})
			y, data = y[rows:], data[rows*size:]
		}
	}
}
