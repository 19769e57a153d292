package gpu

import (
	"fmt"

	"github.com/flashdec/flashdec/internal/nv"
)

// fewRows is up to how many rows our kernels take where there is cuBLAS, too: they then read a matrix twice at most.
const fewRows = 8

// output is one of the products of a step.
type output struct {
	w *linear
	y nv.Pointer // [n, rows]
}

// product is y = W·norm(x), finished; norm 0 is none.
type product struct {
	x       nv.Pointer // [n, cols]
	norm    nv.Pointer // [cols]
	n       int
	outputs []output
	finish  finish
	softcap float64

	rotation rotationParams // of what is turned
}

// many reports whether a product of n rows is cuBLAS's.
func (s *steps) many(n int) bool { return n > fewRows && s.d.blas != nil }

// multiply computes products of n rows. Gated ones have two outputs, of which the
// second's y is scratch.
func (s *steps) multiply(p *product) error {
	if s.many(p.n) {
		return s.multiplyMany(p)
	}
	w := p.outputs[0].w
	for first := 0; first < p.n; {
		id, rows := s.few(w.elem, w.cols, p.n-first)
		rows = min(rows, p.n-first)
		part := s.productParams(p, first)
		part.tokens = int32(rows)
		if err := s.launchProduct(id, &part, 1); err != nil {
			return err
		}
		first += rows
	}
	return nil
}

// productRows is how many rows of x a kernel takes.
var productRows = [numKernels]int{product1: 1, product2: 2, product4: 4, blockProduct1: 1, blockProduct2: 2, blockProduct4: 4}

// firstOf is the kernel for one row of x, of weights of a kind.
func firstOf(e elem) kernelID {
	if e.inBlocks() {
		return blockProduct1
	}
	return product1
}

// few is the kernel for n rows, or for as many as fit into shared memory.
func (s *steps) few(e elem, cols, n int) (id kernelID, rows int) {
	first := firstOf(e)
	for id = first; id < first+2; id++ {
		if productRows[id] >= n || !s.d.fits(id+1, cols) {
			break
		}
	}
	return id, productRows[id]
}

// fits reports whether a kernel's rows of x fit, beside a ring of two slots where it has one.
func (d *Device) fits(id kernelID, cols int) bool {
	room := d.sharedLimit - stagedBytes(id, cols)
	return id < blockProduct1 && room >= 0 || room >= 2*slotBytes
}

// stagedBytes is where the rows of x lie: room of kernels/floats.cuh and blocks.cuh.
func stagedBytes(id kernelID, cols int) int {
	if id >= blockProduct1 {
		return productRows[id] * tiles(cols, 1024) * 3328
	}
	return productRows[id] * tiles(cols, 256) * 1024
}

// slotBytes is the size of a slot of the ring of weights in blocks: kSlot of kernels/blocks.cuh.
const slotBytes = productBlock * 16 * 5

// mostSlots of a ring bring as much as more would: docs/calibration-model.md.
const mostSlots = 3

func (s *steps) productParams(p *product, first int) productParams {
	cols := p.outputs[0].w.cols
	q := productParams{
		x: p.x + nv.Pointer(4*first*cols), norm: p.norm, numOutputs: int32(len(p.outputs)), cols: int32(cols), perToken: 1,
		finish: p.finish, gate: int32(s.n.Gate), eps: float32(s.n.NormEps), softcap: float32(p.softcap),
		rotation: p.rotation,
	}
	q.rotation.positions += nv.Pointer(4 * first)
	q.rotation.places += nv.Pointer(4 * first)
	for i, o := range p.outputs {
		q.outputs[i] = outputParams{w: o.w.params(), bias: o.w.bias, y: o.y + nv.Pointer(4*first*o.w.rows)}
	}
	return q
}

// launchProduct launches a product, for as many pairs of a token and an expert.
func (s *steps) launchProduct(id kernelID, p *productParams, pairs int) error {
	shared := stagedBytes(id, int(p.cols))
	if id >= blockProduct1 {
		p.slots = int32(min((s.d.sharedLimit-shared)/slotBytes, mostSlots))
		shared += max(int(p.slots), 1) * slotBytes
	}
	if shared > s.d.sharedLimit {
		return fmt.Errorf("gpu: weights of %d inputs: their product needs %d bytes of shared memory, and a block has %d", p.cols, shared, s.d.sharedLimit)
	}
	return launch(s.d, id, s.productGrid(p, pairs), productBlock, shared, *p)
}

// tasks are what a product's warps take.
func (p *productParams) tasks() int {
	if p.finish == gated {
		return int(p.outputs[0].w.rows)
	}
	n := 0
	for _, o := range p.outputs[:p.numOutputs] {
		n += tiles(int(o.w.rows), 2)
	}
	return n
}

// productGrid gives a warp a task at a time, as many as run at once.
func (s *steps) productGrid(p *productParams, pairs int) nv.Dim3 {
	return grid(min(tiles(p.tasks(), productBlock/warp), s.d.multiprocessors), pairs)
}

// multiplyMany is multiply with cuBLAS.
func (s *steps) multiplyMany(p *product) error {
	cols := p.outputs[0].w.cols
	x := p.x
	if p.norm != 0 {
		x = s.buffers.h
		if err := s.normInto(x, p.x, p.norm, p.n, cols, false); err != nil {
			return err
		}
	}
	if err := s.split(p, x); err != nil {
		return err
	}
	for _, o := range p.outputs {
		beta := float32(0)
		if p.finish == add {
			beta = 1
		}
		if err := s.gemm(o, x, p.n, beta); err != nil {
			return err
		}
		if o.w.bias == 0 && p.softcap == 0 {
			continue
		}
		err := launch(s.d, biasNumbers, s.eachGrid(p.n*o.w.rows), block, 0, eachParams{
			y: o.y, u: o.w.bias, n: int64(p.n * o.w.rows), cols: int32(o.w.rows), softcap: float32(p.softcap),
		})
		if err != nil {
			return err
		}
	}
	if p.finish != gated {
		return nil
	}
	n := p.n * p.outputs[0].w.rows
	return launch(s.d, gateNumbers, s.eachGrid(n), block, 0, eachParams{
		y: p.outputs[0].y, u: p.outputs[1].y, n: int64(n), gate: int32(s.n.Gate),
	})
}

func (s *steps) eachGrid(n int) nv.Dim3 { return grid(min(tiles(n, block), 16*s.d.multiprocessors), 1) }

// split makes two bf16 numbers of each of x, whose sum has 16 bits of it, where an
// output's weights are not float32.
func (s *steps) split(p *product, x nv.Pointer) error {
	wanted := false
	for _, o := range p.outputs {
		wanted = wanted || o.w.elem != f32
	}
	if !wanted {
		return nil
	}
	cols := p.outputs[0].w.cols
	return launch(s.d, convertRows, grid(tiles(cols, block), min(p.n, maxGridY)), block, 0, convertParams{
		from: matrixParams{data: x, pitch: int64(4 * cols), rows: int32(p.n), elem: f32},
		high: s.buffers.high, low: s.buffers.low, cols: int32(cols),
	})
}

// scratchBytes is what rows of a matrix get that cuBLAS does not take as they are.
const scratchBytes = 64 << 20

// scratchBytes is 0 where no matrix needs any.
func (s *steps) scratchBytes() int {
	rows := []*linear{&s.w.head}
	for i := range s.w.layers {
		l := &s.w.layers[i]
		rows = append(rows, &l.query, &l.key, &l.value, &l.out, &l.gate, &l.up, &l.down, &l.router)
	}
	bytes := 0
	for _, w := range rows {
		if w.elem != f32 && w.elem != bf16 && w.cols > 0 {
			bytes = max(bytes, max(scratchBytes/(4*w.cols), 1)*4*w.cols)
		}
	}
	return bytes
}

// gemm is y = W·x + beta·y: weights in float32 with x as it is, others with its two parts; those that are not bf16 as
// two bf16 numbers each, too, some rows at a time, without the product of the low parts.
func (s *steps) gemm(o output, x nv.Pointer, n int, beta float32) error {
	w, b := o.w, &s.buffers
	g := nv.Gemm{M: w.rows, N: n, K: w.cols, W: w.data, X: x, Y: o.y, WStride: w.pitch / 4, XStride: w.cols, YStride: w.rows, Beta: beta}
	if w.elem == f32 {
		return s.d.blas.Multiply(&g)
	}
	g.Element, g.WStride = nv.BFloat16, w.pitch/2
	if w.elem == bf16 {
		return s.sumGemms(g, [2]nv.Pointer{w.data, b.high}, [2]nv.Pointer{w.data, b.low})
	}
	g.WStride = w.cols
	atOnce := max(scratchBytes/(4*w.cols), 1)
	for first := 0; first < w.rows; first += atOnce {
		from := w.matrix
		from.data += nv.Pointer(first * w.pitch)
		from.rows = min(atOnce, w.rows-first)
		high, low := b.scratch, b.scratch+nv.Pointer(2*from.rows*w.cols)
		err := launch(s.d, convertRows, grid(tiles(w.cols, block), min(from.rows, maxGridY)), block, 0, convertParams{
			from: from.params(), high: high, low: low, cols: int32(w.cols),
		})
		if err != nil {
			return err
		}
		g.M, g.Y = from.rows, o.y+nv.Pointer(4*first)
		if err := s.sumGemms(g, [2]nv.Pointer{high, b.high}, [2]nv.Pointer{high, b.low}, [2]nv.Pointer{low, b.high}); err != nil {
			return err
		}
	}
	return nil
}

// sumGemms adds up the products of pairs of a W and an x.
func (s *steps) sumGemms(g nv.Gemm, pairs ...[2]nv.Pointer) error {
	for _, p := range pairs {
		g.W, g.X = p[0], p[1]
		if err := s.d.blas.Multiply(&g); err != nil {
			return err
		}
		g.Beta = 1
	}
	return nil
}

// normInto is y = norm(x), or with adding y += norm(x).
func (s *steps) normInto(y, x, weight nv.Pointer, n, cols int, adding bool) error {
	p := normParams{x: x, weight: weight, y: y, cols: int32(cols), eps: float32(s.n.NormEps)}
	if adding {
		p.add = 1
	}
	return launch(s.d, normRows, grid(n, 1), block, 0, p)
}
