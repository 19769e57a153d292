package cpu_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/internal/cpu"
	"github.com/flashdec/flashdec/internal/simd"
	"github.com/flashdec/flashdec/kv"
)

var (
	eightBitFloats = []kv.DType{kv.F8E4M3, kv.F8E5M2}
	eightGroups    = []int{1, 2, 4, 5, 8}
)

// inBFloat16 makes a query one that bfloat16 holds.
func inBFloat16(row []float32) {
	for i, x := range row {
		row[i] = math.Float32frombits(math.Float32bits(x) &^ 0xffff)
	}
}

// TestEightBitFloatsKeepToLimits: queries that bfloat16 holds and others, scales of tokens, of all
// and none, rows of very different sizes, softcap and biases.
func TestEightBitFloatsKeepToLimits(t *testing.T) {
	for _, dtype := range eightBitFloats {
		for _, group := range eightGroups {
			for name, query := range map[string]func([]float32){"bf16": inBFloat16, "float32": asItIs} {
				for sizes, change := range map[string]func(row []float32, pos int){
					"plain": asTheyAre,
					"sizes": func(row []float32, pos int) { multiplyBy(row, math.Ldexp(1, pos%41-38)) },
					"tiny":  func(row []float32, pos int) { multiplyBy(row, math.Ldexp(1, -pos%20-115)) },
				} {
					t.Run(fmt.Sprintf("%v/group=%d/%s/%s", dtype, group, name, sizes), func(t *testing.T) {
						l := inCodes(t, dtype, group, 1500, 2, query, change, change)
						judgeIntegers(t, l)
						slopes := []float32{0, 0.01, 0.1, -0.01, 1, 0, 0, 0}[:group]
						l.Options = &attn.Options{Softcap: 3, Causal: true, Window: 700, Slopes: slopes}
						judgeIntegers(t, l)
						l.Options = new(attn.Options)
						for _, scales := range []kv.Scales{{}, {Kind: kv.TensorScale, Values: []float32{0x1.1p-9}}, {Kind: kv.HeadScale, Values: []float32{-0x1.1p-7}}} {
							l.KV.K.Scales, l.KV.V.Scales = scales, scales
							if scales.Kind == kv.NoScales { // codes of up to 57344 are scores of as much
								l.Options.Scale = 0x1p-14
							}
							judgeIntegers(t, l)
						}
					})
				}
			}
		}
	}
}

// TestEightBitFloatsThatAreNotNumbers: codes for NaN and infinity, and scales that are NaN, infinite,
// negative, zero, huge or subnormal, are what they are in float32, and their row's alone.
func TestEightBitFloatsThatAreNotNumbers(t *testing.T) {
	planes := map[string]func(*kv.View) *kv.Plane{
		"k": func(v *kv.View) *kv.Plane { return &v.K }, "v": func(v *kv.View) *kv.Plane { return &v.V },
	}
	inf := float32(math.Inf(1))
	for _, dtype := range eightBitFloats {
		for _, group := range eightGroups {
			for name, of := range planes {
				change := func(t *testing.T, do func(p *kv.Plane, page kv.PageID)) {
					l := inCodes(t, dtype, group, 300, 1, inBFloat16, asTheyAre, asTheyAre)
					do(of(&l.KV), l.KV.Seqs[0].Pages[2])
					judgeIntegers(t, l)
				}
				for _, code := range []byte{0x7f, 0xff, 0x7c, 0xfc, 0x01, 0x81, 0x80} {
					t.Run(fmt.Sprintf("%v/group=%d/%s=%#x", dtype, group, name, code), func(t *testing.T) {
						change(t, func(p *kv.Plane, page kv.PageID) { p.Data[p.Offset(page, 0, 7)+11] = code })
					})
				}
				for _, scale := range []float32{float32(math.NaN()), inf, -0.25, 0, 1e-42, 0x1p-100} {
					t.Run(fmt.Sprintf("%v/group=%d/scale of %s=%v", dtype, group, name, scale), func(t *testing.T) {
						change(t, func(p *kv.Plane, page kv.PageID) { p.Scales.Values[p.Scales.Offset(page, 0, 7)] = scale })
					})
				}
			}
			t.Run(fmt.Sprintf("%v/group=%d/huge values", dtype, group), func(t *testing.T) {
				l := inCodes(t, dtype, group, 300, 1, inBFloat16, asTheyAre, asTheyAre)
				for i := range l.KV.V.Scales.Values {
					l.KV.V.Scales.Values[i] *= 0x1p117 // more than rounding has room for
				}
				judgeIntegers(t, l)
			})
		}
	}
}

// TestEightBitFloatsMeetQueriesInPairs: where bfloat16 holds a query tile's queries, and only there,
// keys in 8-bit floats meet them so, at any group; not where channels have scales, which are in the
// queries.
func TestEightBitFloatsMeetQueriesInPairs(t *testing.T) {
	perChannel := kv.Scales{Kind: kv.ChannelScale, Values: make([]float32, integerDim)}
	for i := range perChannel.Values {
		perChannel.Values[i] = 0x1p-6
	}
	for _, dtype := range eightBitFloats {
		for _, group := range eightGroups {
			l := inCodes(t, dtype, group, 300, 1, inBFloat16, asTheyAre, asTheyAre)
			if got, want := scoredInPairs(t, l), info().RoundedGroup8 > 0; got != want {
				t.Errorf("%v, group %d: in pairs is %v, want %v", dtype, group, got, want)
			}
			l.Q[5] += 0x1p-12
			if scoredInPairs(t, l) {
				t.Errorf("%v, group %d: in pairs, of a query that bfloat16 does not hold", dtype, group)
			}
			l.Q[5] = 1
			l.KV.K.Scales = perChannel
			if scoredInPairs(t, l) {
				t.Errorf("%v, group %d: in pairs, of channels with scales", dtype, group)
			}
		}
	}
}

// TestHeadsOfEightBitFloatsChooseTheirKernelsAlone: of heads side by side, some with queries that
// bfloat16 holds and one without, each gets its tokens' scales once.
func TestHeadsOfEightBitFloatsChooseTheirKernelsAlone(t *testing.T) {
	b := cpu.New(cpu.Options{Threads: 1})
	defer b.Close()
	for _, dtype := range eightBitFloats {
		for _, group := range eightGroups {
			l := headsInCodes(t, dtype, 3, group, 700, 1, inBFloat16, asTheyAre, asTheyAre)
			for _, change := range []float32{0, 0x1p-12} { // nothing, and the second head
				l.Q[group*integerDim] += change
				if err := b.Decode(t.Context(), l); err != nil {
					t.Fatal(err)
				}
				compare(t, l)
			}
		}
	}
}

func scoredInPairs(t *testing.T, l *backend.Launch) bool {
	t.Helper()
	b := cpu.New(cpu.Options{Threads: 1})
	defer b.Close()
	keys := 0
	b.OnPairs(simd.Elem(l.KV.K.Type), func(heads, n int) { keys += heads * n })
	if err := b.Decode(context.Background(), l); err != nil {
		t.Fatal(err)
	}
	compare(t, l)
	return keys > 0
}

// TestEightBitFloatsAllocateNothing: queries in pairs have a place of their own.
func TestEightBitFloatsAllocateNothing(t *testing.T) {
	for _, dtype := range eightBitFloats {
		l := inCodes(t, dtype, 4, 300, 2, inBFloat16, asTheyAre, asTheyAre)
		b := cpu.New(cpu.Options{Threads: 1})
		defer b.Close()
		ctx := context.Background()
		if n := testing.AllocsPerRun(20, func() {
			if err := b.Decode(ctx, l); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%v: %v allocations a step", dtype, n)
		}
	}
}
