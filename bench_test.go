package flashdec_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/internal/bench"
	"github.com/flashdec/flashdec/kv"
)

// benchBytes is the memory that benchmarks lay their cases out in, at as many
// places as fit: it is larger than caches are.
const benchBytes = 256 << 20

// BenchmarkDecode measures a step of 8 KV heads and head dim 128 on GOMAXPROCS
// threads: impl is the kernel level, or one of the ways it is held against.
// flashdec bench measures the same cases beside a bare read of the same bytes.
func BenchmarkDecode(b *testing.B) {
	a, err := bench.NewArena(benchBytes)
	if err != nil {
		b.Fatal(err)
	}
	defer a.Close()
	eng, err := flashdec.Open(flashdec.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer eng.Close()
	for _, dtype := range bench.DTypes {
		for _, group := range []int{1, 4, 7, 8} {
			for keys := 1 << 10; keys <= 1<<16; keys *= 8 {
				c := bench.Case{Name: "benchmark", Heads: 8 * group, KVHeads: 8, Dim: 128, Lens: []int{keys}, DType: dtype}
				if c.StoredBytes() <= benchBytes {
					benchmarkCase(b, &c, a, eng)
				}
			}
		}
	}
}

// benchmarkCase measures the ways to compute a case.
func benchmarkCase(b *testing.B, c *bench.Case, a *bench.Arena, eng *flashdec.Engine) {
	list, err := bench.Impls(context.Background(), c, a, eng.Info().Width, eng)
	if err != nil {
		b.Fatal(err)
	}
	for _, im := range list[1:] { // the first is the bare read, which is no decode
		if im.Note != "" {
			continue // shortened: a shorter case measures the same
		}
		name := im.Name
		if name == "flashdec" {
			name = eng.Info().Kernel
		}
		b.Run(benchName(name, &im.Case), func(b *testing.B) {
			b.SetBytes(int64(im.Bytes()))
			for i := 0; b.Loop(); i++ {
				if err := im.Step(context.Background(), i%im.Places()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func benchName(impl string, c *bench.Case) string {
	return fmt.Sprintf("impl=%s/len=%d/group=%d/dtype=%v", impl, c.Lens[0], c.Heads/c.KVHeads, c.DType)
}

func TestBenchNames(t *testing.T) {
	c := bench.Case{Heads: 32, KVHeads: 8, Lens: []int{65536}, DType: kv.BF16}
	if got, want := benchName("avx512", &c), "impl=avx512/len=65536/group=4/dtype=bf16"; got != want {
		t.Errorf("a benchmark is called %q, want %q", got, want)
	}
}
