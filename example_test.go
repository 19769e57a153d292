package flashdec_test

import (
	"context"
	"fmt"
	"log"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/kv"
)

// Three keys of the derivation's worked example (§2.4.1), one head.
var (
	exampleQ = []float32{0.1, 0.2, 0.3, 0.4}
	exampleK = []float32{0.5, 0.1, 0.3, 0.2, 0.2, 0.6, 0.1, 0.4, 0.3, 0.2, 0.7, 0.1}
	exampleV = []float32{0.1, 0.2, 0.3, 0.4, 0.5, 0.4, 0.3, 0.2, 0.2, 0.6, 0.1, 0.5}
)

func ExampleEngine_Decode() {
	eng, err := flashdec.Open(flashdec.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer eng.Close()
	cache, err := eng.NewCache(kv.Config{NumKVHeads: 1, KeyDim: 4, ValueDim: 4, PageSize: 2, NumPages: 8})
	if err != nil {
		log.Fatal(err)
	}
	defer cache.Close()
	seq := cache.NewSequence()
	if err := seq.Append(exampleK, exampleV); err != nil { // three tokens
		log.Fatal(err)
	}
	view, err := cache.View(seq)
	if err != nil {
		log.Fatal(err)
	}
	step, err := eng.Plan(flashdec.Batch{
		Shape: attn.Shape{NumHeads: 1, NumKVHeads: 1, KeyDim: 4, ValueDim: 4},
		Lens:  []int{seq.Len()},
	})
	if err != nil {
		log.Fatal(err)
	}
	out := step.NewOutput()
	if err := eng.Decode(context.Background(), step, exampleQ, view, out); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("out %.3f, LSE %.3f\n", out.Out, out.LSE)
	// Output: out [0.269 0.403 0.233 0.366], LSE [1.247]
}

// Keys spread over two caches: each yields a state, and the states merge.
func ExampleEngine_DecodeStates() {
	eng, err := flashdec.Open(flashdec.Options{Threads: 1})
	if err != nil {
		log.Fatal(err)
	}
	defer eng.Close()
	shape := attn.Shape{NumHeads: 1, NumKVHeads: 1, KeyDim: 4, ValueDim: 4}
	part := func(k, v []float32) *attn.States {
		cache, err := eng.NewCache(kv.Config{NumKVHeads: 1, KeyDim: 4, ValueDim: 4, PageSize: 16, NumPages: 1})
		if err != nil {
			log.Fatal(err)
		}
		defer cache.Close()
		seq := cache.NewSequence()
		if err := seq.Append(k, v); err != nil {
			log.Fatal(err)
		}
		view, err := cache.View(seq)
		if err != nil {
			log.Fatal(err)
		}
		// The query stands at the end of the whole sequence; without causality, a
		// window or ALiBi its position does not matter here.
		step, err := eng.Plan(flashdec.Batch{Shape: shape, Lens: []int{seq.Len()}})
		if err != nil {
			log.Fatal(err)
		}
		states := step.NewStates()
		if err := eng.DecodeStates(context.Background(), step, exampleQ, view, states); err != nil {
			log.Fatal(err)
		}
		return states
	}
	old, recent := part(exampleK[:8], exampleV[:8]), part(exampleK[8:], exampleV[8:])
	fmt.Printf("m %.4f and %.4f, l %.4f and %.4f\n", old.M, recent.M, old.L, recent.L)
	if err := old.Merge(old, recent); err != nil {
		log.Fatal(err)
	}
	out := make([]float32, 4)
	if err := old.Output(out, nil, 1, nil); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("out %.3f\n", out)
	// Output:
	// m [0.1650] and [0.1600], l [1.9560] and [1.0000]
	// out [0.269 0.403 0.233 0.366]
}

// A tree of speculated tokens: siblings do not see each other.
func ExampleStep_tree() {
	mask, err := attn.TreeMask([]int{-1, 0, 0}) // one root with two children
	if err != nil {
		log.Fatal(err)
	}
	options := attn.Options{Mask: mask}
	for query := range 3 {
		for key := range 5 { // two older keys, then the tree
			fmt.Print(map[bool]string{true: "x", false: "."}[options.Sees(0, 5, 3, query, key)])
		}
		fmt.Println()
	}
	// Output:
	// xxx..
	// xxxx.
	// xxx.x
}
