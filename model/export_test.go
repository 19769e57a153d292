package model

import (
	"math"
	"slices"

	"github.com/flashdec/flashdec/gguf"
	"github.com/flashdec/flashdec/internal/network"
	"github.com/flashdec/flashdec/internal/simd"
)

// PutInBlocks rounds the matrices of m to Q8_0 or Q4_1, but for those that the types do not fit.
func PutInBlocks(m *Model, t gguf.Type) {
	n := m.network
	head := n.Head.Matrix
	put(&n.Head.Matrix, t)
	if sameData(n.Embedding.Data, head.Data) {
		n.Embedding = n.Head.Matrix
	}
	for i := range n.Layers {
		l := &n.Layers[i]
		for _, w := range []*network.Linear{&l.Query, &l.Key, &l.Value, &l.Out, &l.Gate, &l.Up, &l.Down, &l.Router} {
			put(&w.Matrix, t)
		}
		for j := range l.Experts {
			e := &l.Experts[j]
			for _, w := range []*network.Linear{&e.GateUp, &e.Gate, &e.Up, &e.Down} {
				put(&w.Matrix, t)
			}
		}
	}
}

func sameData(a, b []byte) bool { return len(a) > 0 && len(b) > 0 && &a[0] == &b[0] }

func put(m *network.Matrix, t gguf.Type) {
	if m.ByColumns || m.Cols%t.BlockElements() != 0 {
		return
	}
	x := make([]float32, m.Rows*m.Cols)
	read(m.Type, x, m.Data)
	m.Type, m.Data = t, nil
	for ; len(x) > 0; x = x[simd.BlockElements:] {
		m.Data = appendBlock(m.Data, t, x[:simd.BlockElements])
	}
}

// appendBlock appends 32 elements, rounded to the nearest multiple of a 127th of the largest or, Q4_1, to the nearest
// of 16 from the least to the largest.
func appendBlock(data []byte, t gguf.Type, x []float32) []byte {
	if t == gguf.Q8_0 {
		d := max(slices.Max(x), -slices.Min(x)) / 127
		data = appendHalf(data, d)
		for _, v := range x {
			data = append(data, byte(int8(code(v, d))))
		}
		return data
	}
	least := slices.Min(x)
	d := (slices.Max(x) - least) / 15
	data = appendHalf(appendHalf(data, d), least)
	for i := range x[:16] {
		data = append(data, byte(code(x[i]-least, d)|code(x[i+16]-least, d)<<4))
	}
	return data
}

func code(x, d float32) int {
	if d == 0 {
		return 0
	}
	return int(math.RoundToEven(float64(x / d)))
}

func appendHalf(data []byte, x float32) []byte {
	var b [2]byte
	simd.Narrow(b[:], simd.F16, []float32{x})
	return append(data, b[:]...)
}
