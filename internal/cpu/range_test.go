package cpu_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/backend/backendtest"
	"github.com/flashdec/flashdec/internal/cpu"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/plan"
)

// judge decodes a case on two workers and holds every sequence to its limits.
func judge(t *testing.T, c backendtest.Case) {
	t.Helper()
	b := cpu.NewEager(cpu.Options{Threads: 2})
	defer b.Close()
	l := launch(t, b, func(dst *backendtest.Case) { *dst = c })
	if err := b.Decode(context.Background(), l); err != nil {
		t.Fatal(err)
	}
	compare(t, l)
}

// compare holds every sequence of a computed launch to its limits.
func compare(t *testing.T, l *backend.Launch) {
	t.Helper()
	q, out, lse := l.Q, l.Out, l.LSE
	limits := attn.Float32Limits(l.Shape.KeyDim)
	if info().RoundsWeights(l.KV.V.Type, l.Shape.GroupSize()) {
		limits = limits.RoundedWeights()
	}
	for i, s := range l.Plan.Config.Seqs {
		rows := s.NumQueries * l.Shape.NumHeads
		ref, err := attn.Direct(l.Shape, l.Options, i, q[:rows*l.Shape.KeyDim], l.KV.Sequence(i))
		if err != nil {
			t.Fatal(err)
		}
		d, err := ref.Compare(out[:rows*l.Shape.ValueDim], lse[:rows], limits)
		if err != nil {
			t.Fatal(err)
		}
		if !d.Within() {
			t.Errorf("sequence %d: %+v", i, d)
		}
		q, out, lse = q[rows*l.Shape.KeyDim:], out[rows*l.Shape.ValueDim:], lse[rows:]
	}
}

// info is what a backend says of itself.
func info() backend.Info {
	b := cpu.New(cpu.Options{})
	defer b.Close()
	return b.Info()
}

// TestSumOfHugeValuesDoesNotOverflow: an average of finite values is finite,
// though their sum over a chunk is not.
func TestSumOfHugeValuesDoesNotOverflow(t *testing.T) {
	shape := attn.Shape{NumHeads: 4, NumKVHeads: 2, KeyDim: 16, ValueDim: 24}
	fill := func(value func(pos, i int) float32) func(dst []float32, seq, head, pos int) {
		return func(dst []float32, _, _, pos int) {
			for i := range dst {
				dst[i] = value(pos, i)
			}
		}
	}
	values := map[string]func(pos, i int) float32{
		"all the same":         func(int, int) float32 { return 3e38 },
		"one after another":    func(pos, _ int) float32 { return 3e38 * float32(1-2*(pos/50%2)) },
		"beside ordinary ones": func(_, i int) float32 { return []float32{-3.4e38, 1, 1e30}[i%3] },
		"late":                 func(pos, _ int) float32 { return []float32{1, 3e38}[min(pos/280, 1)] },
	}
	for name, value := range values {
		for _, types := range [][2]kv.DType{{kv.F32, kv.F32}, {kv.F32, kv.BF16}} {
			c := backendtest.Case{
				Shape: shape, Lens: []int{3, 300, 0, 4500, 9000}, Queries: []int{1, 2, 1, 1, 1},
				KType: types[0], VType: types[1], PageSize: 16, NumSplits: 2, Value: fill(value),
			}
			t.Run(fmt.Sprintf("%s/v=%v", name, types[1]), func(t *testing.T) { judge(t, c) })
		}
	}
}

// TestSumOfHugeScaledValuesDoesNotOverflow is the same where weights carry the
// scales of tokens.
func TestSumOfHugeScaledValuesDoesNotOverflow(t *testing.T) {
	const n, dim = 5000, 16
	v := make([]float32, n*dim)
	for i := range v {
		v[i] = []float32{3e38, 2e38, 1e-30}[(i/dim/3000+i)%3]
	}
	for _, dtype := range []kv.DType{kv.I8, kv.F8E4M3} {
		decodeTokens(t, dtype, n, 1, attn.Options{}, v)
	}
}

// decodeTokens decodes some queries over n keys and values v [n, 16], which are
// stored as a type with a scale a token, and judges them.
func decodeTokens(t *testing.T, dtype kv.DType, n, queries int, opt attn.Options, v []float32) {
	t.Helper()
	decodeChanged(t, dtype, n, queries, opt, v, nil)
}

// decodeChanged is decodeTokens of what becomes of the cache where change is not nil.
func decodeChanged(t *testing.T, dtype kv.DType, n, queries int, opt attn.Options, v []float32, change func(*kv.View)) {
	t.Helper()
	const dim = 16
	shape := attn.Shape{NumHeads: 2, NumKVHeads: 1, KeyDim: dim, ValueDim: dim}
	cache, err := kv.New(kv.Config{NumKVHeads: 1, KeyDim: dim, ValueDim: dim, PageSize: 100, NumPages: 50, KeyType: kv.F32, ValueType: dtype})
	if err != nil {
		t.Fatal(err)
	}
	defer cache.Close()
	seq := cache.NewSequence()
	k := make([]float32, n*dim)
	for i := range k {
		k[i] = float32(i%7) / 7
	}
	if err := seq.Append(k, v); err != nil {
		t.Fatal(err)
	}
	view, err := cache.View(seq)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&view)
	}
	p, err := plan.New(plan.Config{
		NumKVHeads: 1, GroupSize: 2, Width: 1, NumSplits: 1, Causal: opt.Causal, Window: opt.Window, QueryTile: 16,
		Seqs: []plan.Seq{{Len: n, NumQueries: queries}},
	})
	if err != nil {
		t.Fatal(err)
	}
	rows := 2 * queries
	q := make([]float32, rows*dim)
	for i := range q {
		q[i] = float32(i%5) / 5
	}
	l := &backend.Launch{
		Shape: shape, Options: &opt, Plan: p, KV: view, Q: q,
		Out: make([]float32, rows*dim), LSE: make([]float32, rows),
	}
	if err := l.Validate(); err != nil {
		t.Fatal(err)
	}
	b := cpu.New(cpu.Options{Threads: 1})
	defer b.Close()
	if err := b.Decode(context.Background(), l); err != nil {
		t.Fatal(err)
	}
	compare(t, l)
}

// TestInfiniteValuesStayInfinite: taking a chunk again does not lose what was
// infinite from the start.
func TestInfiniteValuesStayInfinite(t *testing.T) {
	c := backendtest.Case{
		Shape: attn.Shape{NumHeads: 2, NumKVHeads: 1, KeyDim: 16, ValueDim: 16}, Lens: []int{70},
		Value: func(dst []float32, _, _, pos int) {
			for i := range dst {
				dst[i] = 3e38
			}
			if pos == 7 {
				dst[3], dst[5] = float32(math.Inf(-1)), float32(math.NaN())
			}
		},
	}
	judge(t, c)
}

// TestBiasesAreRelativeToVisibleKeys: with a mask that hides the keys nearest to
// the query, the biases of those that are left are thousands from zero, where a
// float32 has few digits, unless they are counted from a key that is left.
func TestBiasesAreRelativeToVisibleKeys(t *testing.T) {
	for _, slopes := range [][]float32{{1, 3}, {-1, -3}, {0.7, -2}} {
		for _, newest := range []bool{false, true} {
			for _, queries := range []int{1, 5} {
				const n, seen = 4090, 50
				for name, from := range map[string]int{"oldest": 0, "newest": n - seen, "middle": 2000, "elsewhere each": -1} {
					mask := attn.Mask{Seqs: 1, Queries: queries, Keys: n, Newest: newest, Visible: make([]uint8, queries*n)}
					rng := rand.New(rand.NewPCG(1, 2))
					for i := range queries {
						from := from
						if from < 0 {
							from = i * (n / queries)
						}
						for j := from; j < from+seen; j++ {
							mask.Visible[i*n+j] = uint8(rng.IntN(2))
						}
					}
					c := backendtest.Case{
						Shape: attn.Shape{NumHeads: 2, NumKVHeads: 1, KeyDim: 16, ValueDim: 16},
						Lens:  []int{n}, Queries: []int{queries}, NumSplits: 1,
						Options: attn.Options{Slopes: slopes, Mask: &mask},
					}
					t.Run(fmt.Sprintf("slopes=%v/newest=%v/queries=%d/%s", slopes, newest, queries, name), func(t *testing.T) { judge(t, c) })
				}
			}
		}
	}
}

// TestScaleMeetsQueryInFloat64: neither a large scale nor a large query leaves
// the range of float32 where their product does not.
func TestScaleMeetsQueryInFloat64(t *testing.T) {
	for _, scale := range []float64{1e38, 3e-44, 0.1} {
		c := backendtest.Case{
			Shape: attn.Shape{NumHeads: 2, NumKVHeads: 1, KeyDim: 16, ValueDim: 16}, Lens: []int{100},
			Options: attn.Options{Scale: scale},
		}
		rng := rand.New(rand.NewPCG(3, 4))
		c.Query = func(dst []float32, _, _, _ int) {
			for i := range dst {
				dst[i] = float32(rng.NormFloat64() / scale)
			}
		}
		if scale < 1e-40 { // 3e-44 is 21 or 22 of float32's least
			c.Key = func(dst []float32, _, _, pos int) {
				for i := range dst {
					dst[i] = 1e4 * float32(rng.NormFloat64())
				}
			}
			c.Query = func(dst []float32, _, _, _ int) {
				for i := range dst {
					dst[i] = 3e38 * float32(1-2*(i%2))
				}
			}
		}
		t.Run(fmt.Sprint(scale), func(t *testing.T) { judge(t, c) })
	}
}

// TestHugeValuesHarmNoOtherRow: what makes one row's sums overflow, or is not
// finite itself, leaves rows that do not see it their digits, however small.
func TestHugeValuesHarmNoOtherRow(t *testing.T) {
	inf := float32(math.Inf(1))
	for name, values := range map[string][]float32{
		"huge": {3e38, 3e38, 1e-40}, "infinite": {inf, 1, 1.23e-38}, "NaN": {float32(math.NaN()), 1, 1.23e-38},
	} {
		mask := attn.Mask{Seqs: 1, Queries: 2, Keys: 3, Visible: []uint8{1, 1, 0, 0, 0, 1}}
		c := backendtest.Case{
			Shape: attn.Shape{NumHeads: 2, NumKVHeads: 1, KeyDim: 16, ValueDim: 16}, Lens: []int{3}, Queries: []int{2},
			Options: attn.Options{Mask: &mask}, Value: constant(values),
		}
		t.Run(name, func(t *testing.T) { judge(t, c) })
	}
	c := backendtest.Case{
		Shape: attn.Shape{NumHeads: 2, NumKVHeads: 1, KeyDim: 16, ValueDim: 16}, Lens: []int{4}, Queries: []int{4},
		Options: attn.Options{Causal: true}, Value: constant([]float32{1e-40, 2e-40, 3e38, 3e38}),
	}
	t.Run("causal", func(t *testing.T) { judge(t, c) })
	t.Run("one dimension", func(t *testing.T) {
		c := c
		c.Queries = []int{1}
		c.Value = func(dst []float32, _, _, _ int) {
			for i := range dst {
				dst[i] = []float32{3e38, 0}[min(i, 1)]
			}
		}
		judge(t, c)
	})
}

// constant are values of equal elements.
func constant(values []float32) func(dst []float32, seq, head, pos int) {
	return func(dst []float32, _, _, pos int) {
		for i := range dst {
			dst[i] = values[pos]
		}
	}
}

// TestLargeScalesHarmNoOtherRow: a row whose keys all have tiny scales keeps its
// digits when another row of the tile sees a large one.
func TestLargeScalesHarmNoOtherRow(t *testing.T) {
	const n, dim = 60, 16
	for _, dtype := range []kv.DType{kv.F8E5M2, kv.F8E4M3, kv.I8} {
		for _, tiny := range []float32{1e-36, 1e-37, 1e-38} {
			v := make([]float32, n*dim)
			for i := range v {
				v[i] = tiny * float32(1+i%5)
			}
			for i := range dim {
				v[(n-1)*dim+i] = 1
			}
			decodeTokens(t, dtype, n, n, attn.Options{Causal: true}, v)
		}
	}
}

// TestTinyValuesKeepTheirDigits: values among the subnormals and near them, with no scale
// that says so, are averaged as well as others, beside rows that see zeros or huge values,
// and where huge ones cancel.
func TestTinyValuesKeepTheirDigits(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	key := func(dst []float32, _, _, _ int) {
		for i := range dst {
			dst[i] = float32(rng.NormFloat64())
		}
	}
	values := map[string]func(pos, i int) float32{
		"zero":      func(int, int) float32 { return 0 },
		"cancelled": func(pos, i int) float32 { return 1e30 * float32(1-2*(pos%2)) },
		"rising":    func(pos, _ int) float32 { return float32(math.Ldexp(1, -149+pos/20)) },
	}
	for _, tiny := range []float64{3e-45, 1e-43, 1e-40, 1e-38, 1e-36, 1e-34} {
		values[fmt.Sprint(tiny)] = func(pos, i int) float32 { return float32(tiny * (1 + float64((7*pos+i)%11)/3)) }
		values[fmt.Sprint(tiny, " of both signs")] = func(pos, i int) float32 {
			return float32(tiny * (1 + float64((7*pos+i)%11)/3) * float64(1-2*(pos%3%2)))
		}
	}
	for name, value := range values {
		for _, dtype := range []kv.DType{kv.F32, kv.BF16} {
			c := backendtest.Case{
				Shape: attn.Shape{NumHeads: 4, NumKVHeads: 2, KeyDim: 16, ValueDim: 24}, Lens: []int{1, 70, 2000, 5000},
				KType: kv.F32, VType: dtype, PageSize: 16, NumSplits: 2, Key: key,
				Value: func(dst []float32, _, _, pos int) {
					for i := range dst {
						dst[i] = value(pos, i)
					}
				},
			}
			t.Run(fmt.Sprintf("%s/v=%v", name, dtype), func(t *testing.T) { judge(t, c) })
		}
	}
}

// TestRowsOfATileHaveUnitsOfTheirOwn: a window lets the older of two queries see a
// large scale that the newer one does not, and then they go on together.
func TestRowsOfATileHaveUnitsOfTheirOwn(t *testing.T) {
	const n, dim = 300, 16 // tiles from 149 on: the second is seen whole by both
	for _, later := range []float32{1e-37, 1} {
		v := make([]float32, n*dim)
		for i := range v {
			v[i] = 1e-37 * float32(1+i%5)
		}
		for i := range dim {
			v[149*dim+i], v[230*dim+i] = 1, later
		}
		decodeTokens(t, kv.F8E4M3, n, 2, attn.Options{Causal: true, Window: 150}, v)
	}
}
