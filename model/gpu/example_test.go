package gpu_test

import (
	"context"
	"fmt"
	"log"
	"slices"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/cuda"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/model"
	"github.com/flashdec/flashdec/model/gpu"
)

// A model on a GPU: what differs from one on the CPU is how engine and runner are opened.
func Example() {
	check := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	g, err := cuda.Open(cuda.Options{})
	check(err)
	eng, err := flashdec.Open(flashdec.Options{Backend: g})
	check(err)
	defer eng.Close() // and the GPU
	device, err := gpu.New(g)
	check(err)
	defer device.Close()
	m, err := model.Open("SmolLM2-135M-Instruct.Q4_1.gguf")
	check(err)
	defer m.Close()
	runner, err := model.NewRunner(m, model.Options{Engine: eng, Device: device, KeyType: kv.BF16, ValueType: kv.BF16})
	check(err)
	defer runner.Close()

	seq, logits := runner.NewSequence(), make([]float32, m.Config().VocabSize)
	check(seq.Feed(context.Background(), []int{1, 2, 3}, logits, nil))
	fmt.Println("next:", slices.Index(logits, slices.Max(logits)))
}
