package main

import (
	"encoding/binary"
	"math"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/internal/simd"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/tensorfile"
)

// readQuery packs q: the heads of each query side by side.
func (r *caseReader) readQuery() (err error) {
	c := r.c
	t, _ := r.file.Tensor("q")
	c.rounded = c.rounded || t.DType == tensorfile.F64
	var q []float32 // [seqs, NumHeads, queries, KeyDim]
	if t.DType == tensorfile.F32 {
		q, err = tensorfile.View[float32](t)
	} else {
		q, err = t.Float32s()
	}
	if err != nil {
		return err
	}
	c.q = swapMiddle(q, c.seqs, c.shape.NumHeads, c.queries, c.shape.KeyDim)
	return nil
}

// swapMiddle turns [n, a, b, dim] into [n, b, a, dim]. Where one of the two is 1
// that is the same order, and x itself is returned.
func swapMiddle[T any](x []T, n, a, b, dim int) []T {
	if a == 1 || b == 1 || len(x) == 0 {
		return x
	}
	swapped := make([]T, len(x))
	for i := range n {
		for j := range a {
			for k := range b {
				copy(swapped[((i*b+k)*a+j)*dim:][:dim], x[((i*a+j)*b+k)*dim:][:dim])
			}
		}
	}
	return swapped
}

func (r *caseReader) readKeyValues() error {
	r.c.k = r.stored("k")
	r.c.v = r.stored("v")
	return nil
}

// releaseEvery is how many elements are read before their pages are given back:
// some megabytes, so that the calls cost nothing beside the reading.
const releaseEvery = 1 << 20

// stored is a tensor as it lies in the file, or, if it is float64, rounded to
// float32.
func (r *caseReader) stored(name string) tensorfile.Tensor {
	t, _ := r.file.Tensor(name)
	if t.DType != tensorfile.F64 {
		return t
	}
	r.c.rounded = true
	data := make([]byte, len(t.Data)/2)
	for i := range len(data) / 4 {
		x := math.Float64frombits(binary.LittleEndian.Uint64(t.Data[8*i:]))
		binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(float32(x)))
		if (i+1)%releaseEvery == 0 && r.c.mapped {
			release(t.Data[8*(i+1-releaseEvery) : 8*(i+1)])
		}
	}
	return tensorfile.Tensor{Name: t.Name, DType: tensorfile.F32, Shape: t.Shape, Data: data}
}

// storedTypes says how keys and values of a file's type are stored and read.
var storedTypes = map[tensorfile.DType]struct {
	stored kv.DType
	elem   simd.Elem
}{
	tensorfile.F32:  {kv.F32, simd.F32},
	tensorfile.F16:  {kv.F16, simd.F16},
	tensorfile.BF16: {kv.BF16, simd.BF16},
}

// storedAs is the type in which a tensor of keys or values is used in place.
func storedAs(t tensorfile.Tensor) kv.DType { return storedTypes[t.DType].stored }

// rows reads the rows of a tensor as float32, exactly.
type rows struct {
	data   []byte
	elem   simd.Elem
	size   int  // bytes of a row
	mapped bool // data lies in the mapped file
}

// rowsOf are the rows of the case's k or v. A rounded one is the case's own copy.
func (c *decodeCase) rowsOf(t tensorfile.Tensor) rows {
	dim := t.Shape[len(t.Shape)-1]
	inFile, _ := c.file.Tensor(t.Name)
	return rows{t.Data, storedTypes[t.DType].elem, dim * t.DType.Size(), c.mapped && inFile.DType == t.DType}
}

// read fills dst with row i, or with as many rows from i on as dst holds.
func (r rows) read(dst []float32, i int) {
	begin := i * r.size
	simd.Widen(dst, r.elem, r.data[begin:begin+len(dst)*r.elem.Bits()/8])
}

// release gives back the memory of n rows from row i on. What is not mapped could
// not be read again.
func (r rows) release(i, n int) {
	if r.mapped {
		release(r.data[i*r.size:][:n*r.size])
	}
}

// fileHead is the keys and values of one sequence and KV head as they lie in the
// file, independent of any cache: an [attn.KeyValues] of a single head.
type fileHead struct {
	c     *decodeCase
	k, v  rows
	first int // row of the head's first key
	n     int // keys
}

// fromFile reads keys and values where they lie in the file.
func (c *decodeCase) fromFile(p part) attn.KeyValues { return c.head(p.seq, p.head) }

func (c *decodeCase) head(seq, head int) *fileHead {
	return &fileHead{c, c.rowsOf(c.k), c.rowsOf(c.v), (seq*c.shape.NumKVHeads + head) * c.keys, c.lens[seq]}
}

func (h *fileHead) Len() int                        { return h.n }
func (h *fileHead) Key(dst []float32, _, pos int)   { h.read(h.k, dst, pos) }
func (h *fileHead) Value(dst []float32, _, pos int) { h.read(h.v, dst, pos) }

// releaseRows is how many rows are read before their pages are given back: some
// hundred kilobytes, so that neither the calls nor the pages that lie across two
// such runs count for much.
const releaseRows = 1 << 10

func (h *fileHead) read(from rows, dst []float32, pos int) {
	from.read(dst, h.first+pos)
	// Beside a copy, the file is not to fill memory a second time.
	if h.c.copied && pos%releaseRows == releaseRows-1 {
		from.release(h.first+pos+1-releaseRows, releaseRows)
	}
}
