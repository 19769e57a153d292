// Package backend is the line between what is computed and where: the interface
// that the engine drives, and what a backend says of itself.
//
// A new backend implements [Backend], is given to flashdec.Open in its Options, and has
// shown that it computes the same thing when it passes backendtest.Run.
package backend

import (
	"context"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/plan"
)

// Info says what a backend is and how it likes its work cut.
type Info struct {
	Name   string // "cpu", "cuda"
	Device string // the processor's own name
	Kernel string // the kernel level in use, such as "generic" or "avx512"
	Width  int    // items that run at once
	// QueryTile is the most queries an item should take.
	QueryTile int
	// HeadTile is how many KV heads it likes to take together; 0 is 1.
	HeadTile int
	// MinKeysPerSplit is the least number of keys that a split is worth on it, at
	// least 32; 0 leaves it to the plan.
	MinKeysPerSplit int
	// StartKeys is what starting an item costs on it, in keys of time; 0 leaves it to
	// the plan.
	StartKeys int
	// Saturating and MergeKeys are plan.Config's of the same names.
	Saturating, MergeKeys int
	// SaturatingElements is plan.Config's SaturatingKeys times the elements of a key and its
	// value, for elements of 16 bits, which are multiplied as they lie; SaturatingConverted is
	// that for all others, which take a processor longer. 0 is any.
	SaturatingElements, SaturatingConverted int
	// RoundedGroup is the least group size with which it rounds the weights of values in
	// bfloat16 to bfloat16, and RoundedGroup8 that for values in 8-bit floats; 0 is none.
	RoundedGroup, RoundedGroup8 int
	// Traces says that it fills Launch.Trace.
	Traces bool
}

// RoundsWeights reports whether the weights of values of a type are rounded to bfloat16 in
// groups of a size, and averages are further off for it: see [attn.Limits.RoundedWeights].
func (i Info) RoundsWeights(v kv.DType, group int) bool {
	least := 0
	switch v {
	case kv.BF16:
		least = i.RoundedGroup
	case kv.F8E4M3, kv.F8E5M2:
		least = i.RoundedGroup8
	}
	return least > 0 && group >= least
}

// SaturatingKeys is plan.Config's for keys of a shape whose elements have so many bits; 0
// bits are unknown, and taken for 16. A shape that is not valid is taken for one element.
func (i Info) SaturatingKeys(s attn.Shape, bits int) int {
	elements := i.SaturatingElements
	if bits != 0 && bits != 16 {
		elements = i.SaturatingConverted
	}
	if elements == 0 {
		return 0
	}
	return max(elements/max(s.KeyDim+s.ValueDim, 1), 1)
}

// Backend computes decode attention. Its methods may be called from several
// goroutines at once.
type Backend interface {
	Info() Info
	// Decode computes a launch and returns when its buffers are filled, or when
	// ctx is done; then the buffers' contents are undefined. Processors that can be
	// stopped look at ctx every few thousand keys of a tile of queries at the latest; a
	// GPU looks before it starts. The launch has passed [Launch.Validate].
	Decode(ctx context.Context, l *Launch) error
	// Close frees what the backend holds. Calls after it return ErrClosed.
	Close() error
}

// Assisted is a backend that goroutines of its callers may help.
type Assisted interface {
	Backend
	// Assist computes parts of the decodes that others call, as they come, until something holds: it is
	// asked all the while, and must be quick to answer. A closed backend returns false at once.
	Assist(until func() bool) bool
}

// Launch is one decode step, ready to compute. Queries of all sequences are
// packed: sequence i's follow sequence i−1's.
type Launch struct {
	Shape   attn.Shape
	Options *attn.Options
	Plan    *plan.Plan
	KV      kv.View
	Q       []float32 // [queries, NumHeads, KeyDim]

	// Out and LSE receive the outputs, sinks counted in.
	Out []float32 // [queries, NumHeads, ValueDim]
	LSE []float32 // [queries, NumHeads] natural; nil if not wanted

	// States, when set, receives states instead, without sinks: Out and LSE stay
	// untouched. Rows are [queries, NumHeads].
	States *attn.States

	// Trace, when set, receives which processor did what and when, from backends
	// that say so in their Info; others leave it alone.
	Trace *Trace
}
