// Package flashdec computes exact decode attention, the FlashDecoding way.
//
// While a language model generates, each step has one new query a head and a
// long KV cache. The cache is cut along the sequence into splits; each processor
// computes a split's state (m, l, o) with an online softmax; an exact merge of
// the states gives the attention output:
//
//	q + paged KV cache ──plan──▶ items ──partials──▶ (m, l, o) per item ──merge──▶ out, LSE
//
// An [Engine] owns the processors. [Engine.NewCache] makes a paged KV cache
// (package kv), [Engine.Plan] cuts a step's work (package plan), and
// [Engine.Decode] computes it. A [Step] depends on lengths and rules only, so
// one plan serves all layers of a model. [Engine.DecodeStates] yields states
// instead of outputs, for keys that are spread over several caches or machines;
// package attn has their merge.
//
// Query tensors of a step are packed: the queries of sequence i follow those of
// sequence i − 1, and each query holds its heads one after the other:
// [queries, NumHeads, KeyDim].
//
// Errors wrap the sentinels of the package that found them, such as
// [attn.ErrShape]; their text says what came and what was wanted.
package flashdec
