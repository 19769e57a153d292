package gguf

import (
	"encoding/binary"
	"math"
)

// builder writes a file, right or wrong, piece by piece.
type builder []byte

func (b *builder) u32(v ...uint32) *builder {
	for _, x := range v {
		*b = binary.LittleEndian.AppendUint32(*b, x)
	}
	return b
}

func (b *builder) u64(v ...uint64) *builder {
	for _, x := range v {
		*b = binary.LittleEndian.AppendUint64(*b, x)
	}
	return b
}

func (b *builder) text(s string) *builder {
	b.u64(uint64(len(s)))
	*b = append(*b, s...)
	return b
}

// file begins a file of so many tensors and pairs.
func file(tensors, pairs uint64) *builder {
	b := builder(magic)
	return b.u32(3).u64(tensors, pairs)
}

// tensor describes one; dims are in the file's order.
func (b *builder) tensor(name string, t Type, offset uint64, dims ...uint64) *builder {
	return b.text(name).u32(uint32(len(dims))).u64(dims...).u32(uint32(t)).u64(offset)
}

// body aligns and adds n bytes.
func (b *builder) body(n int) []byte {
	for len(*b)%defaultAlignment != 0 {
		*b = append(*b, 0)
	}
	return append(*b, make([]byte, n)...)
}

func bitsOf(x float32) uint32 { return math.Float32bits(x) }
