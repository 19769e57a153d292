package cpu_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend/backendtest"
	"github.com/flashdec/flashdec/internal/cpu"
	"github.com/flashdec/flashdec/internal/simd"
	"github.com/flashdec/flashdec/kv"
)

// shortCase is a step in bfloat16, queries too, of three heads that go side by side through
// small pages, or through large ones.
func shortCase(group, pageSize int) backendtest.Case {
	return backendtest.Case{
		Shape: attn.Shape{NumHeads: 3 * group, NumKVHeads: 3, KeyDim: 64, ValueDim: 64},
		Lens:  []int{700, 1}, KType: kv.BF16, VType: kv.BF16, PageSize: pageSize, NumSplits: 2,
		Query: func(dst []float32, _, query, head int) {
			rng := rand.New(rand.NewPCG(uint64(query), uint64(head)))
			for i := range dst {
				dst[i] = float32(rng.IntN(257)-128) / 64
			}
			dst[9] = float32(2 - head/group%2*4)
		},
	}
}

// TestSpecialNumbersInBFloat16: kernels that take subnormal numbers for zeros, and multiply what
// is infinite before its scale, show neither: keys and values of every kind give what they
// give in float32, NaN and infinities where they are.
func TestSpecialNumbersInBFloat16(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	fill := map[string]func(dst []float32, pos int){
		"infinite in one":                     func(dst []float32, pos int) { dst[pos%7] = []float32{1, inf}[max(0, 1-pos%300)] },
		"minus infinite":                      func(dst []float32, pos int) { dst[3] = []float32{dst[3], -inf}[max(0, 1-pos%90)] },
		"all minus infinite":                  func(dst []float32, pos int) { dst[0] = -inf },
		"beyond the range before their scale": func(dst []float32, pos int) { dst[9] = 0x1.8p127 },
		"NaN in one":                          func(dst []float32, pos int) { dst[5] = []float32{dst[5], nan}[max(0, 1-pos%500)] },
		"huge":                                func(dst []float32, pos int) { scale(dst, 0x1p112) },
		"largest":                             func(dst []float32, pos int) { dst[9] = 0x1.fep119 * float32(1-2*(pos%2)) },
		"subnormal":                           func(dst []float32, pos int) { scale(dst, 0x1p-130) },
		"near them":                           func(dst []float32, pos int) { scale(dst, 0x1p-110) },
		"one subnormal":                       func(dst []float32, pos int) { dst[2] = 0x1p-131 * float32(pos%3) },
		"zero":                                func(dst []float32, pos int) { clear(dst) },
	}
	for name, change := range fill {
		for _, group := range []int{2, 8} {
			for _, pageSize := range []int{16, 300} {
				for _, scaled := range []float64{0, 0.01, 0.5} {
					base := shortCase(group, pageSize)
					base.Options.Scale = scaled
					touched := func(dst []float32, _, _, pos int) { change(dst, pos) }
					keys, values := base, base
					keys.Key, values.Value = touched, touched
					at := fmt.Sprintf("%s/group=%d/pages=%d/scale=%v", name, group, pageSize, scaled)
					t.Run("keys/"+at, func(t *testing.T) { judge(t, keys) })
					t.Run("values/"+at, func(t *testing.T) { judge(t, values) })
				}
			}
		}
	}
}

func scale(x []float32, by float32) {
	for i := range x {
		x[i] *= by
	}
}

// TestTinyValuesOfLightKeys: values whose products with small weights are below 2⁻¹²⁶ keep what
// they sum up to, where there are many.
func TestTinyValuesOfLightKeys(t *testing.T) {
	c := shortCase(8, 16)
	c.Lens = []int{4000}
	c.Query = func(dst []float32, _, _, _ int) {
		clear(dst)
		dst[0] = 8
	}
	c.Key = func(dst []float32, _, _, pos int) { dst[0] = float32(-10 * min(pos, 1)) }
	c.Value = func(dst []float32, _, _, pos int) {
		for i := range dst {
			dst[i] = []float32{0x1p-116, 0x1p-113}[min(pos, 1)]
		}
	}
	judge(t, c)
}

// TestRoundedWeightsSumToOne: an average over rounded weights is one still: values that are all
// the same are their own, as far as float32 goes.
func TestRoundedWeightsSumToOne(t *testing.T) {
	c := shortCase(8, 16)
	c.Lens = []int{5, 700, 6000}
	c.Value = func(dst []float32, _, _, _ int) {
		for i := range dst {
			dst[i] = 100
		}
	}
	out, _ := decodePairs(t, c)
	for i, x := range out {
		if !(math.Abs(float64(x)-100) <= 100e-5) {
			t.Fatalf("out[%d] is %v, an average of values of 100", i, x)
		}
	}
}

// TestHeadsChooseTheirKernelsAlone: a head's bits do not depend on whether bfloat16 holds the
// queries of the heads beside it, and heads whose queries it holds do take kernels for them.
func TestHeadsChooseTheirKernelsAlone(t *testing.T) {
	const wide = 1 // the head whose queries it does not hold
	for _, group := range []int{2, 8} {
		for _, pageSize := range []int{16, 300} {
			all := shortCase(group, pageSize)
			some := all
			some.Query = func(dst []float32, seq, query, head int) {
				all.Query(dst, seq, query, head)
				if head/group == wide {
					dst[0] = 1 + 0x1p-20
				}
			}
			want, pairs := decodePairs(t, all)
			got, fewer := decodePairs(t, some)
			if pairs == 0 && info().RoundedGroup > 0 || fewer != pairs/3*2 {
				t.Errorf("group %d, pages of %d: %d and %d heads' tiles were scored in pairs", group, pageSize, pairs, fewer)
			}
			for i := range got {
				if head := i / all.Shape.ValueDim % all.Shape.NumHeads; head/group != wide && math.Float32bits(got[i]) != math.Float32bits(want[i]) {
					t.Fatalf("group %d, pages of %d: out[%d] of head %d is %v, and %v beside others", group, pageSize, i, head, want[i], got[i])
				}
			}
		}
	}
}

// decodePairs is a case's output on one thread, and how many tiles of heads were scored in pairs.
func decodePairs(t *testing.T, c backendtest.Case) (out []float32, pairs int) {
	t.Helper()
	b := cpu.New(cpu.Options{Threads: 1})
	defer b.Close()
	b.OnPairs(simd.BF16, func(heads, keys int) { pairs += heads * ((keys + simd.TileKeys - 1) / simd.TileKeys) })
	l := launch(t, b, func(dst *backendtest.Case) { *dst = c })
	if err := b.Decode(context.Background(), l); err != nil {
		t.Fatal(err)
	}
	compare(t, l)
	return l.Out, pairs
}
