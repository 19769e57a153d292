package main

import (
	"context"
	"encoding/binary"
	"math"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/internal/simd"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/tensorfile"
)

// readQuery finds q. An engine takes the heads of each query side by side: which is the
// file's own order where there is one head, or one query.
func (r *caseReader) readQuery() (err error) {
	c := r.c
	if c.q, err = r.load("q"); err != nil {
		return err
	}
	c.rounded = c.rounded || c.q.DType == tensorfile.F64
	if c.q.DType == tensorfile.F32 && (c.shape.NumHeads == 1 || c.queries == 1) {
		c.packed, err = tensorfile.View[float32](c.q)
	}
	return err
}

// readQueries reads a piece's queries as float32 [seqs, queries, NumHeads, KeyDim].
func (c *decodeCase) readQueries(dst []float32, p piece) {
	heads, dim, row := c.shape.NumHeads, c.shape.KeyDim, c.shape.KeyDim*c.q.DType.Size()
	for seq := p.seq; seq < p.seq+p.seqs; seq++ {
		for head := range heads {
			at := ((seq*heads+head)*c.queries + p.query) * row
			for query := p.query; query < p.query+p.queries; query++ {
				widen(dst[(p.place(seq, query)*heads+head)*dim:][:dim], c.q.DType, c.q.Data[at:][:row])
				at += row
			}
		}
	}
	c.file.Release(c.q.Data) // beside a copy, it is not to fill memory a second time
}

// queriesOf are a piece's queries, read anew.
func (c *decodeCase) queriesOf(p piece) []float32 {
	q := make([]float32, p.seqs*p.queries*c.shape.NumHeads*c.shape.KeyDim)
	c.readQueries(q, p)
	return q
}

// releaseBytes is how many bytes of the file are read before their memory is given
// back: some megabytes, so that the calls cost nothing beside the reading.
const releaseBytes = 4 << 20

// inOrder calls each with every row of a tensor, and gives their memory back as it
// goes: beside a copy, the file is not to fill memory a second time.
func (r *caseReader) inOrder(t tensorfile.Tensor, row int, each func(i int, data []byte)) error {
	kept := 0
	for at := 0; at < len(t.Data); at += row {
		each(at/row, t.Data[at:][:row])
		if end := at + row; end-kept >= releaseBytes || end == len(t.Data) {
			r.file.Release(t.Data[kept:end])
			kept = end
			if r.ctx.Err() != nil {
				return context.Cause(r.ctx)
			}
		}
	}
	return nil
}

// widen reads elements of any float type as float32: exactly, but for float64,
// which is rounded to nearest.
func widen(dst []float32, t tensorfile.DType, data []byte) {
	if t != tensorfile.F64 {
		simd.Widen(dst, simd.Elem(storedTypes[t]), data)
		return
	}
	for i := range dst {
		dst[i] = float32(math.Float64frombits(binary.LittleEndian.Uint64(data[8*i:])))
	}
}

func (r *caseReader) readKeyValues() (err error) {
	if r.c.k, err = r.stored("k"); err != nil {
		return err
	}
	r.c.v, err = r.stored("v")
	return err
}

// stored is a tensor as it lies in the file, or, if it is float64, rounded to
// float32.
func (r *caseReader) stored(name string) (tensorfile.Tensor, error) {
	t, err := r.load(name)
	if err != nil || t.DType != tensorfile.F64 {
		return t, err
	}
	r.c.rounded = true
	dst, dim := make([]float32, len(t.Data)/8), t.Shape[3]
	err = r.inOrder(t, 8*dim, func(i int, data []byte) { widen(dst[i*dim:][:dim], t.DType, data) })
	return tensorfile.Tensor{Name: t.Name, DType: tensorfile.F32, Shape: t.Shape, Data: tensorfile.Bytes(dst)}, err
}

// storedTypes says as what keys and values of a file's type are stored.
var storedTypes = map[tensorfile.DType]kv.DType{
	tensorfile.F32: kv.F32, tensorfile.F16: kv.F16, tensorfile.BF16: kv.BF16,
}

// storedAs is the type in which a tensor of keys or values is used in place.
func storedAs(t tensorfile.Tensor) kv.DType { return storedTypes[t.DType] }

// rows reads the rows of a tensor as float32, exactly.
type rows struct {
	data []byte
	elem simd.Elem
	size int // bytes of a row
}

// rowsOf are the rows of the case's k or v.
func (c *decodeCase) rowsOf(t tensorfile.Tensor) rows {
	return rows{t.Data, simd.Elem(storedTypes[t.DType]), t.Shape[3] * t.DType.Size()}
}

// read fills dst with row i, or with as many rows from i on as dst holds.
func (r rows) read(dst []float32, i int) {
	begin := i * r.size
	simd.Widen(dst, r.elem, r.data[begin:begin+len(dst)*r.elem.Bits()/8])
}

// hasRead counts bytes of keys and values that have been read from the file. Beside
// a copy, the file is not to fill memory a second time: every few megabytes, all of
// it goes back. Heads may be far smaller than a page of memory, so no part of the
// file can be told to be done with.
func (c *decodeCase) hasRead(bytes int) {
	if c.copied && c.unreleased.Add(int64(bytes)) >= releaseBytes {
		c.unreleased.Store(0)
		c.file.Release(c.k.Data)
		c.file.Release(c.v.Data)
	}
}

// fileHead is the keys and values of one sequence and KV head as they lie in the
// file, independent of any cache: an [attn.KeyValues] of a single head.
type fileHead struct {
	c      *decodeCase
	k, v   rows
	first  int // row of the head's first key
	n      int // keys
	unsaid int // bytes read since the last hasRead
}

// fromFile reads keys and values where they lie in the file.
func (c *decodeCase) fromFile(p part) attn.KeyValues { return c.head(p.seq, p.head) }

func (c *decodeCase) head(seq, head int) *fileHead {
	h := &fileHead{c: c, k: c.rowsOf(c.k), v: c.rowsOf(c.v), first: (seq*c.shape.NumKVHeads + head) * c.keys, n: c.lens[seq]}
	c.hasRead(min(unsaidBytes, h.n*(h.k.size+h.v.size))) // what will not be said
	return h
}

func (h *fileHead) Len() int                        { return h.n }
func (h *fileHead) Key(dst []float32, _, pos int)   { h.read(h.k, dst, pos) }
func (h *fileHead) Value(dst []float32, _, pos int) { h.read(h.v, dst, pos) }

// unsaidBytes is how many bytes a head's reader reads before it says so.
const unsaidBytes = 64 << 10

func (h *fileHead) read(from rows, dst []float32, pos int) {
	from.read(dst, h.first+pos)
	if h.unsaid += from.size; h.unsaid >= unsaidBytes {
		h.c.hasRead(h.unsaid)
		h.unsaid = 0
	}
}
