package flashdec_test

import (
	"context"
	"fmt"
	"log"
	"math"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/kv"
)

// Two query heads share each KV head (GQA).
var grouped = attn.Shape{NumHeads: 4, NumKVHeads: 2, KeyDim: 8, ValueDim: 8}

// wave is n numbers from −1 to 1.
func wave(n int, from float64) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(math.Sin(from + float64(i*i%1009)))
	}
	return x
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Two answers to one prompt: they share the pages of the prompt, a page that only
// one of them appends into is copied first, and one decode computes both.
func Example_sharedPrefix() {
	eng, err := flashdec.Open(flashdec.Options{})
	check(err)
	defer eng.Close()
	cache, err := eng.NewCache(kv.Config{NumKVHeads: 2, KeyDim: 8, ValueDim: 8, PageSize: 16, NumPages: 64})
	check(err)
	defer cache.Close()

	const row = 2 * 8 // a token's keys, or values: [NumKVHeads, dim]
	first := cache.NewSequence()
	check(first.Append(wave(100*row, 1), wave(100*row, 2)))
	second, err := first.Fork()
	check(err)
	check(first.Append(wave(row, 3), wave(row, 4)))
	check(second.Append(wave(3*row, 5), wave(3*row, 6)))
	pages := cache.Stats()
	fmt.Printf("%d and %d tokens in %d pages, %d of them shared\n", first.Len(), second.Len(), pages.Used, pages.Shared)

	view, err := cache.View(first, second)
	check(err)
	// The second has three new tokens, whose queries do not see what comes after them.
	step, err := eng.Plan(flashdec.Batch{
		Shape: grouped, Options: attn.Options{Causal: true},
		Lens: []int{first.Len(), second.Len()}, NumQueries: []int{1, 3},
	})
	check(err)
	q := wave(step.NumQueries()*4*8, 7) // [1 + 3 queries, NumHeads, KeyDim]
	out := step.NewOutput()
	check(eng.Decode(context.Background(), step, q, view, out))
	for i := range step.NumQueries() {
		fmt.Printf("query %d: LSE of each head %.3f\n", i, out.LSE[i*4:][:4])
	}
	// Output:
	// 101 and 103 tokens in 8 pages, 6 of them shared
	// query 0: LSE of each head [4.792 4.742 4.907 4.795]
	// query 1: LSE of each head [4.699 4.782 4.772 4.731]
	// query 2: LSE of each head [4.764 4.846 4.773 4.677]
	// query 3: LSE of each head [4.866 4.644 4.687 4.878]
}

// What a smaller cache costs: the distance of what it stores from what was
// appended, and of the attention over it from the attention over float32.
func Example_quantisedCache() {
	eng, err := flashdec.Open(flashdec.Options{})
	check(err)
	defer eng.Close()
	const tokens, row = 1000, 2 * 8
	k, v := wave(tokens*row, 1), wave(tokens*row, 2)
	decode := func(t kv.DType) (out []float32, bytes int, loss kv.Loss) {
		cache, err := eng.NewCache(kv.Config{
			NumKVHeads: 2, KeyDim: 8, ValueDim: 8, PageSize: 16, NumPages: 64,
			KeyType: t, ValueType: t, // quantised ones get a scale a token and head
		})
		check(err)
		defer cache.Close()
		seq := cache.NewSequence()
		check(seq.Append(k, v))
		loss, err = seq.Loss(0, k, v)
		check(err)
		view, err := cache.View(seq)
		check(err)
		step, err := eng.Plan(flashdec.Batch{Shape: grouped, Lens: []int{tokens}})
		check(err)
		o := step.NewOutput()
		check(eng.Decode(context.Background(), step, wave(4*8, 3), view, o))
		return o.Out, cache.Stats().Bytes, loss
	}
	exact, _, _ := decode(kv.F32)
	for _, t := range []kv.DType{kv.F32, kv.F16, kv.I8, kv.I4} {
		out, bytes, loss := decode(t)
		furthest := 0.0
		for i := range out {
			furthest = max(furthest, math.Abs(float64(out[i]-exact[i])))
		}
		fmt.Printf("%-4v %6d bytes, values off by at most %.5f, out by %.5f\n", t, bytes, loss.Values.Max, furthest)
	}
	// Output:
	// f32  129024 bytes, values off by at most 0.00000, out by 0.00000
	// f16   64512 bytes, values off by at most 0.00024, out by 0.00001
	// int8  48384 bytes, values off by at most 0.00391, out by 0.00016
	// int4  32256 bytes, values off by at most 0.07121, out by 0.00327
}
