package cpu_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/plan"
)

// TestInfiniteValuesOfLightKeysStayInfinite: a value is infinite however little its key weighs, down to
// the least number that is not zero, of either sign, beside sums that overflow, and with a scale that its weight
// vanishes by. A hidden key's stays unread meanwhile.
func TestInfiniteValuesOfLightKeysStayInfinite(t *testing.T) {
	for _, dtype := range []kv.DType{kv.F32, kv.BF16, kv.F16, kv.F8E5M2} {
		scales := []float32{1}
		if dtype.Quantised() {
			scales = []float32{1, -1, 0, 1e-20, 1e-38, -1e-45}
		}
		for _, group := range []int{1, 4, 8} {
			for _, scale := range scales {
				for _, below := range []float32{0, 50, 86, 88, 94, 96, 98, 100, 102, 103} {
					t.Run(fmt.Sprintf("%v/group=%d/scale=%v/score=-%v", dtype, group, scale, below), func(t *testing.T) {
						l := lightKey(t, dtype, group, below, scale)
						bitsOf(t, l)
						compare(t, l)
					})
				}
			}
		}
	}
}

// lightKey is a step of one KV head in which one key, whose value has infinite elements and a scale if values have such,
// scores so much less than the others.
func lightKey(t *testing.T, dtype kv.DType, group int, below, scale float32) *backend.Launch {
	t.Helper()
	const n, light, dim = 200, 77, 64 // as kernels of rounded weights want
	cache, err := kv.New(kv.Config{NumKVHeads: 1, KeyDim: dim, ValueDim: dim, PageSize: n, NumPages: 1, KeyType: kv.F32, ValueType: dtype})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cache.Close() })
	huge := map[kv.DType]float32{kv.F32: 3e38, kv.BF16: 3e38, kv.F16: 6e4, kv.F8E5M2: 1e38}[dtype]
	seq, inf := cache.NewSequence(), float32(math.Inf(1))
	for pos := range n {
		key, value := make([]float32, dim), make([]float32, dim)
		for i := range value {
			value[i] = []float32{1, 1, huge, huge, -huge, 1e-3}[i%6]
			if pos == light {
				value[i] = []float32{inf, -inf, -inf, 1, inf, 0}[i%6]
			}
		}
		switch pos {
		case light:
			key[0] = -below
		case light + 1: // hidden
			key[0], value[2] = -inf, float32(math.NaN())
		case light + 2: // of no weight, but read
			key[0], value[5] = -300, float32(math.NaN())
		}
		if err := seq.Append(key, value); err != nil {
			t.Fatal(err)
		}
	}
	view, err := cache.View(seq)
	if err != nil {
		t.Fatal(err)
	}
	if s := &view.V.Scales; s.Kind == kv.TokenScale {
		s.Values[s.Offset(view.Seqs[0].Pages[0], 0, light)] = scale
		s.Values[s.Offset(view.Seqs[0].Pages[0], 0, light+2)] = -1
	}
	p, err := plan.New(plan.Config{NumKVHeads: 1, GroupSize: group, Width: 1, NumSplits: 1, Seqs: []plan.Seq{{Len: n, NumQueries: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	l := &backend.Launch{
		Shape: attn.Shape{NumHeads: group, NumKVHeads: 1, KeyDim: dim, ValueDim: dim}, Options: &attn.Options{Scale: 1}, Plan: p, KV: view,
		Q: make([]float32, group*dim), Out: make([]float32, group*dim), LSE: make([]float32, group),
	}
	for r := range group {
		l.Q[r*dim] = 1
	}
	if err := l.Validate(); err != nil {
		t.Fatal(err)
	}
	return l
}
