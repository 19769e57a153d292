package cuda_test

import (
	"fmt"
	"log"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/cuda"
	"github.com/flashdec/flashdec/kv"
)

// Keys, values and queries lie in the GPU's memory already, made by the caller's own
// CUDA program, and so does the room for the outputs: GPU.Alloc and GPU.Upload stand
// for it here. A step is planned once, and launched or replayed over many layers.
func ExampleGPU_NewStep() {
	gpu, err := cuda.Open(cuda.Options{})
	if err != nil {
		log.Fatal(err) // without a GPU: cuda.ErrNoGPU, with what is missing
	}
	eng, err := flashdec.Open(flashdec.Options{Backend: gpu})
	if err != nil {
		log.Fatal(err)
	}
	defer eng.Close() // and the GPU

	const keys, kvHeads, dim = 4096, 2, 64
	shape := attn.Shape{NumHeads: 8, NumKVHeads: kvHeads, KeyDim: dim, ValueDim: dim}
	foreign := func(numbers int) cuda.Pointer {
		p, err := gpu.Alloc(4 * numbers)
		if err != nil {
			log.Fatal(err)
		}
		if err := gpu.Upload(p, make([]float32, numbers)); err != nil {
			log.Fatal(err)
		}
		return p
	}
	plane := func() kv.Plane { // [keys, kvHeads, dim] float32, one page of all keys
		return kv.Plane{
			Type: kv.F32, Dim: dim, PageStride: keys * kvHeads * dim, SlotStride: kvHeads * dim, HeadStride: dim,
			Device: kv.Memory{Address: uint64(foreign(keys * kvHeads * dim)), Bytes: 4 * keys * kvHeads * dim},
		}
	}
	view := kv.View{
		K: plane(), V: plane(), NumKVHeads: kvHeads, PageSize: keys, NumPages: 1,
		Seqs: []kv.Table{{Pages: []kv.PageID{0}, Len: keys}},
	}
	planned, err := eng.Plan(flashdec.Batch{Shape: shape, Lens: []int{keys}, KVBits: view.K.Type.Bits()})
	if err != nil {
		log.Fatal(err)
	}
	step, err := gpu.NewStep(cuda.StepConfig{Shape: shape, Plan: planned.Plan(), KV: view})
	if err != nil {
		log.Fatal(err)
	}
	defer step.Close()
	layer := cuda.Layer{
		K: view.K, V: view.V,
		Q:   foreign(8 * dim), // [queries 1, NumHeads, KeyDim]
		Out: foreign(8 * dim), // [queries 1, NumHeads, ValueDim]
	}
	stream := gpu.Stream() // or a CUstream of the caller's
	if err := step.Launch(layer, stream); err != nil {
		log.Fatal(err)
	}
	graph, err := step.Capture(layer) // of a model: all its layers
	if err != nil {
		log.Fatal(err)
	}
	defer graph.Close()
	if err := graph.Replay(&view, stream); err != nil {
		log.Fatal(err)
	}
	out := make([]float32, 8*dim)
	if err := gpu.Download(out, layer.Out); err != nil { // waits for the GPU's own stream
		log.Fatal(err)
	}
	fmt.Println(out[:4])
}
