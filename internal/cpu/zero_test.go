package cpu_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend/backendtest"
	"github.com/flashdec/flashdec/internal/cpu"
	"github.com/flashdec/flashdec/kv"
)

// TestTinyValuesKeepTheirDigitsBesideNonFinite: a NaN or an infinity in one element of a value
// leaves the others their digits, though products with most weights round to 0.
func TestTinyValuesKeepTheirDigitsBesideNonFinite(t *testing.T) {
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		for _, dtype := range []kv.DType{kv.F32, kv.BF16} {
			c := backendtest.Case{
				Shape: attn.Shape{NumHeads: 2, NumKVHeads: 1, KeyDim: 1, ValueDim: 3}, Lens: []int{5000},
				KType: kv.F32, VType: dtype, NumSplits: 1, Options: attn.Options{Scale: 1},
				Query: func(dst []float32, _, _, _ int) { dst[0] = 1 },
				Key: func(dst []float32, _, _, pos int) {
					dst[0] = -6.9 * float32(min(pos, 1)) // all but the first weigh 0.001
				},
				Value: func(dst []float32, _, _, pos int) {
					const tiny = 0x1p-140 // a bfloat16 has 2⁻¹³³ at least
					for i := range dst {
						dst[i] = 0x1p7 * tiny
					}
					if pos == 7 {
						dst[1] = float32(bad)
					}
				},
			}
			t.Run(fmt.Sprintf("%v/v=%v", bad, dtype), func(t *testing.T) { judge(t, c) })
		}
	}
}

// TestZerosAreSummedOnce: what is zero is no smaller in a larger unit, whatever its sign; but
// one value that is not, and whose products all round to 0, is found wherever it is.
func TestZerosAreSummedOnce(t *testing.T) {
	const n, dim = 1500, 13 // rows end within eight bytes
	minus := float32(math.Copysign(0, -1))
	for name, tc := range map[string]struct {
		value func(pos, i int) float32
		again bool
	}{
		"0":             {func(int, int) float32 { return 0 }, false},
		"-0":            {func(int, int) float32 { return minus }, false},
		"of both signs": {func(pos, i int) float32 { return []float32{0, minus}[(pos*pos+i)%3%2] }, false},
		"ordinary":      {func(pos, i int) float32 { return float32(pos%5 + i) }, false},
		"one is not":    {func(pos, i int) float32 { return 1e-40 * float32(pos/(n-1)*(i/(dim-1))) }, true},
		"first is not":  {func(pos, i int) float32 { return 1e-40 * float32((n-pos)/n) }, true},
	} {
		for _, dtype := range []kv.DType{kv.F32, kv.BF16} {
			t.Run(fmt.Sprintf("%s/v=%v", name, dtype), func(t *testing.T) {
				b := cpu.New(cpu.Options{Threads: 1})
				defer b.Close()
				l := launch(t, b, func(c *backendtest.Case) {
					*c = backendtest.Case{
						Shape: attn.Shape{NumHeads: 2, NumKVHeads: 1, KeyDim: 8, ValueDim: dim}, Lens: []int{n},
						KType: kv.F32, VType: dtype, PageSize: 16, NumSplits: 1,
						Value: func(dst []float32, _, _, pos int) {
							for i := range dst {
								dst[i] = tc.value(pos, i)
							}
						},
					}
				})
				if err := b.Decode(context.Background(), l); err != nil {
					t.Fatal(err)
				}
				compare(t, l)
				if again := b.Lifted(); again != tc.again {
					t.Errorf("summed again: %v, want %v", again, tc.again)
				}
			})
		}
	}
}

// TestScalesOfZerosHarmNoOtherKey: the scale of a row of zeros says nothing, so keys of tiny scales
// keep their digits beside it, even where its scale, lifted, would be infinite.
func TestScalesOfZerosHarmNoOtherKey(t *testing.T) {
	const n, dim = 1000, 16
	v := make([]float32, n*dim)
	for i := range v {
		v[i] = 1e-40 * float32(1+i%5)
	}
	for dtype, zeros := range map[kv.DType][]byte{kv.I8: {0}, kv.I4: {0}, kv.F8E4M3: {0, 0x80}, kv.F8E5M2: {0, 0x80}} {
		for _, scale := range []float32{1, -1, 3e38} {
			for _, code := range zeros {
				change := func(view *kv.View) {
					for _, key := range []int{3, 500} {
						page, slot, p := view.Seqs[0].Pages[key/view.PageSize], key%view.PageSize, &view.V
						p.Scales.Values[p.Scales.Offset(page, 0, slot)] = scale
						for i := range p.RowBytes() {
							p.Data[p.Offset(page, 0, slot)+i] = code
						}
					}
				}
				t.Run(fmt.Sprintf("%v/%v·%#x", dtype, scale, code), func(t *testing.T) {
					decodeChanged(t, dtype, n, 1, attn.Options{}, v, change)
					decodeChanged(t, dtype, n, 3, attn.Options{Causal: true, Window: 600}, v, change)
				})
			}
		}
	}
}

// TestScalesOfNoNumbersHarmNoOtherKey: nor does that of a row whose one element is NaN or infinite and whose others are
// zero: what is tiny keeps its digits in the elements that are finite, and the one stays what it is, sign and all. The
// largest number that a type has is one.
func TestScalesOfNoNumbersHarmNoOtherKey(t *testing.T) {
	const n, dim = 1000, 16
	v := make([]float32, n*dim)
	for i := range v {
		v[i] = 1e-40 * float32(1+i%5)
	}
	for dtype, codes := range map[kv.DType][]byte{kv.F8E4M3: {0x7f, 0xff, 0x7e}, kv.F8E5M2: {0x7c, 0xfc, 0x7d, 0xff, 0x7b}} {
		for _, scale := range []float32{1, -1, 3e38} {
			for i, code := range codes {
				if largest := i == len(codes)-1; largest && scale > 1 {
					continue // no float32
				}
				change := func(view *kv.View) {
					for _, key := range []int{3, 500} {
						page, slot, p := view.Seqs[0].Pages[key/view.PageSize], key%view.PageSize, &view.V
						p.Scales.Values[p.Scales.Offset(page, 0, slot)] = scale
						row := p.Data[p.Offset(page, 0, slot):][:p.RowBytes()]
						for i := range row {
							row[i] = byte(i%2) << 7
						}
						row[9] = code
					}
				}
				t.Run(fmt.Sprintf("%v/%v·%#x", dtype, scale, code), func(t *testing.T) {
					decodeChanged(t, dtype, n, 1, attn.Options{}, v, change)
					decodeChanged(t, dtype, n, 3, attn.Options{Causal: true, Window: 600}, v, change)
				})
			}
		}
	}
}
