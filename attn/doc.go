// Package attn says what decode attention means, and nothing about where it
// runs: the shape of a problem, the rules that turn q·k into a score, the state
// (m, l, o) of a set of keys with its merge law, and the direct float64 softmax
// that every backend is judged by.
//
// The mathematics is FlashDecoding's: the KV cache is cut along the sequence,
// each piece yields a [State], and states of disjoint key sets merge exactly in
// any grouping. Symbols are the derivation's (docs/DERIVATION.md), section
// numbers in comments are its sections.
package attn
