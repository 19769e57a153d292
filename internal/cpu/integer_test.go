package cpu_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/internal/cpu"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/plan"
)

var integerTypes = []kv.DType{kv.I8, kv.I4}

const (
	integerDim   = 64
	integerHeads = 5 // query heads of the one KV head: four and one more
)

// integers is a step of random numbers over a cache of integers, each row with its own
// scale. q, k and v may change the rows, which are not yet quantised.
func integers(t *testing.T, dtype kv.DType, n, queries int, q func(row []float32), k, v func(row []float32, pos int)) *backend.Launch {
	t.Helper()
	return inCodes(t, dtype, integerHeads, n, queries, q, k, v)
}

// inCodes is the same of any quantised type and number of query heads.
func inCodes(t *testing.T, dtype kv.DType, heads, n, queries int, q func(row []float32), k, v func(row []float32, pos int)) *backend.Launch {
	t.Helper()
	return headsInCodes(t, dtype, 1, heads, n, queries, q, k, v)
}

// headsInCodes is the same of any number of KV heads, with group query heads each.
func headsInCodes(t *testing.T, dtype kv.DType, kvHeads, group, n, queries int, q func(row []float32), k, v func(row []float32, pos int)) *backend.Launch {
	t.Helper()
	cache, err := kv.New(kv.Config{
		NumKVHeads: kvHeads, KeyDim: integerDim, ValueDim: integerDim, PageSize: 32, NumPages: n/32 + 1, KeyType: dtype, ValueType: dtype,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cache.Close() })
	rng := rand.New(rand.NewPCG(51, 52))
	row := func() []float32 {
		x := make([]float32, integerDim)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		return x
	}
	seq := cache.NewSequence()
	for pos := range n {
		var keys, values []float32
		for range kvHeads {
			key, value := row(), row()
			k(key, pos)
			v(value, pos)
			keys, values = append(keys, key...), append(values, value...)
		}
		if err := seq.Append(keys, values); err != nil {
			t.Fatal(err)
		}
	}
	view, err := cache.View(seq)
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.New(plan.Config{NumKVHeads: kvHeads, GroupSize: group, Width: max(1, 3-kvHeads), QueryTile: 16, Seqs: []plan.Seq{{Len: n, NumQueries: queries}}})
	if err != nil {
		t.Fatal(err)
	}
	rows := queries * kvHeads * group
	l := &backend.Launch{
		Shape: attn.Shape{NumHeads: kvHeads * group, NumKVHeads: kvHeads, KeyDim: integerDim, ValueDim: integerDim}, Options: new(attn.Options),
		Plan: p, KV: view, Out: make([]float32, rows*integerDim), LSE: make([]float32, rows),
	}
	for range rows {
		x := row()
		q(x)
		l.Q = append(l.Q, x...)
	}
	if err := l.Validate(); err != nil {
		t.Fatal(err)
	}
	return l
}

func asItIs([]float32)         {}
func asTheyAre([]float32, int) {}

func judgeIntegers(t *testing.T, l *backend.Launch) {
	t.Helper()
	b := cpu.NewEager(cpu.Options{Threads: 2})
	defer b.Close()
	if err := b.Decode(context.Background(), l); err != nil {
		t.Fatal(err)
	}
	compare(t, l)
}

func multiplyBy(row []float32, by float64) {
	for i := range row {
		row[i] *= float32(by)
	}
}

// TestIntegersKeepToLimits: ordinary numbers, rows of very different sizes, softcap
// and biases.
func TestIntegersKeepToLimits(t *testing.T) {
	for _, dtype := range integerTypes {
		for _, queries := range []int{1, 3} {
			for name, change := range map[string]func(row []float32, pos int){
				"plain": asTheyAre,
				"sizes": func(row []float32, pos int) { multiplyBy(row, math.Ldexp(1, pos%41-38)) },
				"tiny":  func(row []float32, pos int) { multiplyBy(row, math.Ldexp(1, -pos%20-115)) },
			} {
				t.Run(fmt.Sprintf("%v/queries=%d/%s", dtype, queries, name), func(t *testing.T) {
					l := integers(t, dtype, 5000, queries, asItIs, change, change)
					judgeIntegers(t, l)
					l.Options = &attn.Options{Softcap: 3, Causal: true, Window: 700, Slopes: []float32{0, 0.01, 0.1, -0.01, 1}}
					judgeIntegers(t, l)
				})
			}
		}
	}
}

// TestIntegersOfOutliers: a channel in which q is up to a million times as large as in the
// others, and keys are zero, leaves scores as they were. What the others lose beside
// it in fixed point, of three digits and then of four, would be too much.
func TestIntegersOfOutliers(t *testing.T) {
	for _, dtype := range integerTypes {
		for _, size := range []float32{30, 1000, 3e4, 3e6} {
			t.Run(fmt.Sprintf("%v/%v", dtype, size), func(t *testing.T) {
				judgeIntegers(t, integers(t, dtype, 300, 1,
					func(row []float32) { row[5] = size },
					func(row []float32, _ int) { row[5] = 0 }, asTheyAre))
			})
		}
	}
}

// TestIntegersOfLargeScores: softmaxes from flat to one key's.
func TestIntegersOfLargeScores(t *testing.T) {
	for _, dtype := range integerTypes {
		for _, n := range []int{64, 1000, 5000} {
			for _, by := range []float64{0.01, 2, 3, 4, 5, 10, 100, 1000} {
				t.Run(fmt.Sprintf("%v/keys=%d/%v", dtype, n, by), func(t *testing.T) {
					judgeIntegers(t, integers(t, dtype, n, 3, func(row []float32) { multiplyBy(row, by) }, asTheyAre, asTheyAre))
				})
			}
		}
	}
}

// TestIntegersBesideHeavyKeys: many light keys, whose values are alike, keep their part of the
// result beside a heavy one of each tile, or of the first, whatever part of a weight's lowest
// digit each is.
func TestIntegersBesideHeavyKeys(t *testing.T) {
	for _, dtype := range integerTypes {
		for _, every := range []int{64, 1 << 20} {
			for _, score := range []float64{4, 8, 11, 11.5, 12, 14} {
				t.Run(fmt.Sprintf("%v/every=%d/score=%v", dtype, every, score), func(t *testing.T) {
					judgeIntegers(t, integers(t, dtype, 5000, 1,
						func(row []float32) {
							clear(row)
							row[0] = float32(score)
						},
						func(row []float32, pos int) {
							clear(row)
							if pos%every == 0 {
								row[0] = 8 // √dim
							}
						},
						func(row []float32, pos int) {
							for i := range row {
								row[i] = 1
							}
							if pos%every == 0 {
								multiplyBy(row, -1)
							}
						}))
				})
			}
		}
	}
}

// TestIntegersBesideAnEmptyRow: a value of a large scale whose codes are all zero,
// which no cache of its own has, takes nothing from values of small scales beside it.
func TestIntegersBesideAnEmptyRow(t *testing.T) {
	for _, dtype := range integerTypes {
		t.Run(dtype.String(), func(t *testing.T) {
			l := integers(t, dtype, 300, 1, asItIs, asTheyAre, asTheyAre)
			v := &l.KV.V
			for pos := 0; pos < 300; pos += 64 {
				page := l.KV.Seqs[0].Pages[pos/32]
				clear(v.Data[v.Offset(page, 0, pos%32):][:v.RowBytes()])
				v.Scales.Values[v.Scales.Offset(page, 0, pos%32)] = 1e6
			}
			judgeIntegers(t, l)
		})
	}
}

// TestIntegersThatAreNotNumbers: a scale that is NaN, infinite or negative is that of
// its row, and a query no other head's.
func TestIntegersThatAreNotNumbers(t *testing.T) {
	for _, dtype := range integerTypes {
		for _, scale := range []float32{float32(math.NaN()), float32(math.Inf(1)), -0.25} {
			for name, of := range map[string]func(*kv.View) *kv.Plane{
				"k": func(v *kv.View) *kv.Plane { return &v.K }, "v": func(v *kv.View) *kv.Plane { return &v.V },
			} {
				t.Run(fmt.Sprintf("%v/%s=%v", dtype, name, scale), func(t *testing.T) {
					l := integers(t, dtype, 300, 1, asItIs, asTheyAre, asTheyAre)
					p := of(&l.KV)
					p.Scales.Values[p.Scales.Offset(l.KV.Seqs[0].Pages[2], 0, 7)] = scale
					judgeIntegers(t, l)
				})
			}
			for _, head := range []int{0, integerHeads - 1} {
				l := integers(t, dtype, 300, 1, asItIs, asTheyAre, asTheyAre)
				l.Q[head*integerDim+3] = scale
				judgeIntegers(t, l)
			}
		}
	}
}

// TestIntegersAllocateNothing: queries in fixed point have a place of their own.
func TestIntegersAllocateNothing(t *testing.T) {
	l := integers(t, kv.I8, 300, 2, asItIs, asTheyAre, asTheyAre)
	b := cpu.New(cpu.Options{Threads: 1})
	defer b.Close()
	ctx := context.Background()
	if n := testing.AllocsPerRun(20, func() {
		if err := b.Decode(ctx, l); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations a step", n)
	}
}
