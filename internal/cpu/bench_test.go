package cpu_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend/backendtest"
	"github.com/flashdec/flashdec/internal/cpu"
	"github.com/flashdec/flashdec/internal/simd"
	"github.com/flashdec/flashdec/kv"
)

// benchmark decodes a case again and again. Bytes are the keys and values that
// queries see, each once.
func benchmark(b *testing.B, threads int, c backendtest.Case) {
	be := cpu.New(cpu.Options{Threads: threads})
	defer be.Close()
	l := launch(b, be, func(dst *backendtest.Case) { *dst = c })
	keys := 0
	for _, n := range c.Lens {
		keys += n
	}
	row := c.Shape.KeyDim*c.KType.Bits()/8 + c.Shape.ValueDim*c.VType.Bits()/8
	b.SetBytes(int64(keys * c.Shape.NumKVHeads * row))
	for b.Loop() {
		if err := be.Decode(context.Background(), l); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, threads := range []int{1, 2} {
		for _, dtype := range []kv.DType{kv.F32, kv.BF16} {
			for _, n := range []int{16, 1024, 65536} {
				c := backendtest.Case{
					Shape: attn.Shape{NumHeads: 4, NumKVHeads: 1, KeyDim: 128, ValueDim: 128},
					Lens:  []int{n}, KType: dtype, VType: dtype, PageSize: 16,
				}
				name := fmt.Sprintf("impl=%s/threads=%d/len=%d/group=4/dtype=%v", simd.Level(), threads, n, dtype)
				b.Run(name, func(b *testing.B) { benchmark(b, threads, c) })
			}
		}
	}
}

// BenchmarkPrompt: the same 512 queries as one prompt, whose query tiles share
// the loading of keys, and as what a decode of each alone would cost.
func BenchmarkPrompt(b *testing.B) {
	shape := attn.Shape{NumHeads: 4, NumKVHeads: 1, KeyDim: 64, ValueDim: 64}
	prompt := backendtest.Case{Shape: shape, Lens: []int{512}, Queries: []int{512}, PageSize: 16}
	prompt.Options.Causal = true
	b.Run(fmt.Sprintf("impl=%s/as=prompt/len=512/group=4/dtype=f32", simd.Level()), func(b *testing.B) { benchmark(b, 1, prompt) })
	single := backendtest.Case{Shape: shape, PageSize: 16}
	for n := 1; n <= 512; n++ {
		single.Lens = append(single.Lens, n)
	}
	b.Run(fmt.Sprintf("impl=%s/as=decodes/len=512/group=4/dtype=f32", simd.Level()), func(b *testing.B) { benchmark(b, 1, single) })
}
