package kv_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"math"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/kv"
)

// Keys and values that lie in two tensors of the caller's are decoded in place: they
// are a cache of one page a sequence.
func ExampleContiguous() {
	bytes := func(x ...float32) (data []byte) {
		for _, v := range x {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
		}
		return data
	}
	nan := float32(math.NaN()) // beyond the second sequence's one key: never read
	// [batch 2, KV heads 1, keys 2, dim 2]
	k := kv.Tensor{Type: kv.F32, Data: bytes(1, 0, 0, 1, 1, 1, nan, nan)}
	v := kv.Tensor{Type: kv.F32, Data: bytes(1, 2, 3, 4, 5, 6, nan, nan)}
	view, err := kv.Contiguous(k, v, 2, 1, 2, 2, 2, []int{2, 1})
	if err != nil {
		log.Fatal(err)
	}

	eng, err := flashdec.Open(flashdec.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer eng.Close()
	step, err := eng.Plan(flashdec.Batch{
		Shape: attn.Shape{NumHeads: 1, NumKVHeads: 1, KeyDim: 2, ValueDim: 2},
		Lens:  []int{2, 1},
	})
	if err != nil {
		log.Fatal(err)
	}
	out := step.NewOutput()
	q := []float32{0, 0, 1, 1} // [queries 2, heads 1, dim 2]
	if err := eng.Decode(context.Background(), step, q, view, out); err != nil {
		log.Fatal(err)
	}
	fmt.Println(out.Out)
	// Output: [2 3 5 6]
}

// Two continuations of one text share its pages. Who appends into a page that is
// shared copies it first, and what is cut off goes back.
func ExampleSequence_Fork() {
	cache, err := kv.New(kv.Config{NumKVHeads: 1, KeyDim: 2, ValueDim: 2, PageSize: 4, NumPages: 8})
	if err != nil {
		log.Fatal(err)
	}
	defer cache.Close()
	tokens := func(n int) []float32 { return make([]float32, n*2) } // [n, KV heads 1, dim 2]
	pages := func(what string) {
		s := cache.Stats()
		fmt.Printf("%s: %d pages, %d of them shared\n", what, s.Used, s.Shared)
	}

	text := cache.NewSequence()
	if err := text.Append(tokens(6), tokens(6)); err != nil {
		log.Fatal(err)
	}
	pages("6 tokens")
	other, err := text.Fork()
	if err != nil {
		log.Fatal(err)
	}
	pages("forked")
	if err := other.Append(tokens(1), tokens(1)); err != nil {
		log.Fatal(err)
	}
	pages("one goes on")
	if err := other.Truncate(4); err != nil {
		log.Fatal(err)
	}
	pages("and is cut")
	if err := other.Free(); err != nil {
		log.Fatal(err)
	}
	pages("and freed")
	// Output:
	// 6 tokens: 2 pages, 0 of them shared
	// forked: 2 pages, 2 of them shared
	// one goes on: 3 pages, 1 of them shared
	// and is cut: 2 pages, 1 of them shared
	// and freed: 2 pages, 0 of them shared
}
