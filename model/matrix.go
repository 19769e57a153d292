package model

import (
	"slices"

	"github.com/flashdec/flashdec/gguf"
	"github.com/flashdec/flashdec/internal/network"
	"github.com/flashdec/flashdec/internal/simd"
)

// readRow reads row i of m into dst [Cols].
func readRow(dst []float32, m *network.Matrix, i int) {
	size := m.RowBytes()
	read(m.Type, dst[:m.Cols], m.Data[i*size:(i+1)*size])
}

// read reads elements whose number the loader has checked.
func read(t gguf.Type, dst []float32, src []byte) {
	if err := t.Dequantise(dst, src); err != nil {
		panic("model: " + err.Error())
	}
}

// elemOf is the kernels' name of a plain type; plain is false where they have none.
func elemOf(t gguf.Type) (e simd.Elem, plain bool) {
	switch t {
	case gguf.F32:
		return simd.F32, true
	case gguf.F16:
		return simd.F16, true
	case gguf.BF16:
		return simd.BF16, true
	}
	return 0, false
}

// product is y = x·Wᵀ + bias for n rows of x.
type product struct {
	w *network.Linear
	x []float32 // [n, inputs]
	y []float32 // [n, outputs]
}

// spanBytes is about how much of a matrix a task takes: long enough to be worth the taking and for
// memory to stream, short enough that all are done at about the same time. Rows of plain types are
// longer, and each beginning costs them more.
const (
	spanBytes      = 32 << 10 // docs/calibration.md
	plainSpanBytes = 64 << 10
)

// span is how many outputs a task takes: a multiple of 16, so that no two tasks write into one cache
// line of a row.
func (p *product) span() int {
	perOutput, bytes := p.w.RowBytes(), spanBytes
	if p.w.ByColumns {
		perOutput = max(perOutput*p.w.Rows/p.w.Cols, 1)
	}
	if _, plain := elemOf(p.w.Type); plain {
		bytes = plainSpanBytes
	}
	return min(max(bytes/perOutput&^15, 16), max(p.w.Outputs(), 1))
}

func (p *product) numSpans() int { return (p.w.Outputs() + p.span() - 1) / p.span() }

// takesVectors reports whether products of few rows take x as vectors, which prepare makes.
func (c *crew) takesVectors(w *network.Linear) bool {
	return int(w.Type) < len(c.dots) && c.dots[w.Type] != nil
}

// given is an x that products share, of which those that take vectors make them. Each seat does so for itself, as it comes
// to it: vectors that one had made for all would have to leave the others' caches before, and to come there after.
type given struct {
	number int
	x      []float32 // [n, inputs]
	n      int
	blocks []simd.Block // of the products that take vectors
}

// prepare says what the products' x is.
func (c *crew) prepare(n int, products ...product) {
	g := &c.given
	g.number++
	g.x, g.n, g.blocks = products[0].x, n, g.blocks[:0]
	for i := range products {
		if w := products[i].w; c.takesVectors(w) {
			g.blocks = append(g.blocks, blockOf[w.Type])
		}
	}
}

// takeUp makes vectors of what was given, once.
func (s *seat) takeUp(inputs int) {
	g := &s.crew.given
	if s.made == g.number {
		return
	}
	s.made = g.number
	for len(s.vectors) < g.n {
		s.vectors = append(s.vectors, simd.Vector{})
	}
	for r := range g.n {
		s.vectors[r].Set(row(g.x, r, inputs), g.blocks...)
	}
}

// multiply computes products of n rows of one x each, all spread over the crew together. What follows is for few
// rows; panels.go has what is for many.
func (c *crew) multiply(n int, products ...product) {
	if c.takesPanels(n) {
		c.multiplyMany(n, products...)
		return
	}
	c.prepare(n, products...)
	tasks := 0
	for i := range products {
		tasks += products[i].numSpans()
	}
	c.runRuns(tasks, c.spansAtOnce(products), func(s *seat, lo, hi int) {
		for i := range products {
			spans := products[i].numSpans()
			if lo < spans && hi > 0 {
				products[i].compute(s, n, max(lo, 0), min(hi, spans))
			}
			lo, hi = lo-spans, hi-spans
		}
	})
}

// outputs are those of spans [from, to).
func (p *product) outputs(from, to int) (lo, hi int) {
	return from * p.span(), min(to*p.span(), p.w.Outputs())
}

// spansAtOnce is how many spans of rows of blocks a seat takes at least, none for others: few and long calls read these
// faster (docs/calibration.md).
func (c *crew) spansAtOnce(products []product) int {
	for i := range products {
		if !c.takesVectors(products[i].w) {
			return 0
		}
	}
	return 4
}

// compute computes spans [from, to) of the outputs: those of rows of blocks at once, unless several rows of x meet them,
// to which they should still be in the cache.
func (p *product) compute(s *seat, n, from, to int) {
	lo, hi := p.outputs(from, to)
	step := p.span()
	if n == 1 && s.crew.takesVectors(p.w) {
		step = max(hi-lo, 1)
	}
	for ; lo < hi; lo += step {
		p.some(s, n, lo, min(lo+step, hi))
	}
}

// some computes outputs [lo, hi).
func (p *product) some(s *seat, n, lo, hi int) {
	switch _, plain := elemOf(p.w.Type); {
	case p.w.ByColumns:
		p.byColumns(s, n, lo, hi)
	case plain:
		p.inPlace(s, n, lo, hi)
	default:
		p.dots(s, n, lo, hi)
	}
	if p.w.Bias == nil {
		return
	}
	outputs := p.w.Outputs()
	for i := range n {
		simd.Add(p.y[i*outputs+lo:i*outputs+hi], p.w.Bias[lo:hi])
	}
}

// aheadBytes is how far ahead of its work a task fetches rows: those of the next task, too, which lie behind its own.
const aheadBytes = 16 << 10 // docs/calibration.md

// inPlace multiplies with rows that the kernels read where they lie.
func (p *product) inPlace(s *seat, n, lo, hi int) {
	e, _ := elemOf(p.w.Type)
	scores, size := s.crew.scores[e], p.w.RowBytes()
	if stream := s.crew.streams[e]; stream != nil && n == 1 && !s.crew.rowByRow && p.w.Cols%simd.RowStep == 0 {
		stream(p.y[lo:hi], p.x[:p.w.Cols], p.w.Data[lo*size:hi*size])
		return
	}
	lead := max(aheadBytes/size, 1)
	for lo < hi {
		list := rowList(s.off[0][:], lo, hi, size)
		ahead := rowList(s.off[1][:], lo+lead, min(lo+lead+len(list), p.w.Rows), size)
		scores(p.y[lo:], p.w.Rows, p.x, n, p.w.Cols, simd.Tile{Data: p.w.Data, Off: list}, simd.Ahead{Data: p.w.Data, Off: ahead, Bytes: size})
		lo += len(list)
	}
}

// rowList lists where rows [lo, hi), or as many as a tile has, begin.
func rowList(off []int, lo, hi, size int) []int {
	off = off[:max(min(hi-lo, simd.TileKeys), 0)]
	for i := range off {
		off[i] = (lo + i) * size
	}
	return off
}

// place is a row of a matrix.
type place struct {
	w   *network.Linear
	row int
}

// dots multiplies with quantised rows that the kernels read where they lie. While they do, they fetch what comes next: what
// comes first is fetched while x is taken up.
func (p *product) dots(s *seat, n, lo, hi int) {
	dot, data := s.crew.dots[p.w.Type], p.w.Data[lo*p.w.RowBytes():hi*p.w.RowBytes()]
	if s.read != (place{p.w, lo}) {
		simd.FetchBytes(data[:min(len(data), simd.DotLead)])
	}
	s.read = place{p.w, hi}
	s.takeUp(p.w.Cols)
	for i := range n {
		dot(p.y[i*p.w.Rows+lo:i*p.w.Rows+hi], &s.vectors[i], data)
	}
}

// byColumns accumulates rows, each times its input, into the outputs [lo, hi).
func (p *product) byColumns(s *seat, n, lo, hi int) {
	e, _ := elemOf(p.w.Type) // the loader lets no other types in
	accumulate, size, width := s.crew.accumulate[e], p.w.RowBytes(), hi-lo
	s.columns = resize(s.columns, n*width+n)
	y, alpha := s.columns[:n*width], s.columns[n*width:]
	clear(alpha) // the first tile overwrites
	skip := e.RowBytes(lo)
	for first := 0; first < p.w.Rows; first += simd.TileKeys {
		list := rowList(s.off[0][:], first, p.w.Rows, size)
		for i := range list {
			list[i] += skip
		}
		accumulate(y, n, width, p.x[first:], p.w.Rows, alpha, simd.Tile{Data: p.w.Data, Off: list}, simd.Ahead{})
		for i := range alpha {
			alpha[i] = 1
		}
	}
	for i := range n {
		copy(p.y[i*p.w.Cols+lo:i*p.w.Cols+hi], y[i*width:])
	}
}

// resize is s with n elements, of whatever values.
func resize(s []float32, n int) []float32 { return slices.Grow(s[:0], n)[:n] }
