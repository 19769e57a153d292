// Package model runs language models of the Llama family over the engine: it loads a Hugging Face folder
// or a GGUF file and turns token ids into logits.
//
//	ids ──embed──▶ x ──layers──▶ x ──norm, head──▶ logits
//	        layer: x += attention(norm(x));  x += mlp(norm(x))
//
// A family (llama, qwen3, gemma3 …) is a line of choices over shared parts, in family.go. Weights are
// used where they lie in the mapped file; rows of quantised ones are read into float32 a few at a time.
// Everything else is float32. Attention is the engine's alone: a paged cache a layer, one plan a step for
// all layers of a kind, and in layers with a sliding window no more pages than the window needs.
//
//	m, err := model.Open("SmolLM2-135M-Instruct.Q4_1.gguf")
//	runner, err := model.NewRunner(m, model.Options{Engine: engine})
//	seq := runner.NewSequence()
//	err = runner.Forward(ctx, model.Part{Seq: seq, IDs: ids, Logits: logits})
//
// The package's example, in example_test.go, goes the whole way from a text to its continuation, with packages
// token and sample.
//
// A model's file is hostile until it is loaded: configurations without sense, tensors that are missing or
// of another shape, are errors that say so in a line.
package model
