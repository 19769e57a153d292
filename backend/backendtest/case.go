// Package backendtest is the conformance suite that every backend passes, and
// the generator of the cases that it, other tests and benchmarks run on.
//
// A [Case] says what a decode step is like; [Case.Build] gives it numbers, by
// the case's seed, and memory that is poisoned wherever nothing may be read. What
// a backend makes of it is judged by [attn.Direct].
package backendtest

import (
	"fmt"
	"strings"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/kv"
)

// Case describes a decode step. The same case always has the same numbers.
type Case struct {
	Name    string // what it is about; empty is a description of the fields
	Seed    uint64
	Shape   attn.Shape
	Options attn.Options
	Lens    []int // [seqs] keys
	Queries []int // [seqs] new queries; nil is one each
	// IDs say whose numbers a sequence has, so that one can be found again in
	// another batch. Nil numbers them from 0.
	IDs []int

	KType, VType kv.DType
	Layout       kv.Layout
	PageSize     int    // 0 is contiguous: one page a sequence
	PageSeed     uint64 // order of the pages in memory
	Pad          int    // poisoned elements between rows
	Interleaved  bool   // K and V share one allocation, page by page

	NumSplits int // 0 lets the plan choose
	Invariant bool

	// Query, Key and Value, where set, change what the seed filled dst with.
	Query func(dst []float32, seq, query, head int)
	Key   func(dst []float32, seq, head, pos int)
	Value func(dst []float32, seq, head, pos int)
}

// String is the case's name.
func (c *Case) String() string {
	if c.Name != "" {
		return c.Name
	}
	var s strings.Builder
	fmt.Fprintf(&s, "heads=%d/%d,dim=%d", c.Shape.NumHeads, c.Shape.NumKVHeads, c.Shape.KeyDim)
	if c.Shape.ValueDim != c.Shape.KeyDim {
		fmt.Fprintf(&s, "/%d", c.Shape.ValueDim)
	}
	fmt.Fprintf(&s, ",kv=%v/%v,lens=%s,queries=%s,page=%d", c.KType, c.VType, brief(c.Lens), brief(c.Queries), c.PageSize)
	if c.NumSplits > 0 {
		fmt.Fprintf(&s, ",splits=%d", c.NumSplits)
	}
	if c.Options.Window > 0 {
		fmt.Fprintf(&s, ",window=%d", c.Options.Window)
	}
	if c.Options.Causal {
		s.WriteString(",causal")
	}
	if c.Invariant {
		s.WriteString(",invariant")
	}
	return s.String()
}

// brief prints a list, its middle left out when it is long.
func brief(list []int) string {
	if len(list) > 4 {
		return fmt.Sprintf("%d…%d×%d", list[0], list[len(list)-1], len(list))
	}
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(list), "[]"), " ", "+")
}

// numQueries is how many new queries a sequence has.
func (c *Case) numQueries(seq int) int {
	if c.Queries == nil {
		return 1
	}
	return c.Queries[seq]
}

func (c *Case) id(seq int) int {
	if c.IDs == nil {
		return seq
	}
	return c.IDs[seq]
}

// pageSize is the page size in force.
func (c *Case) pageSize() int {
	if c.PageSize > 0 {
		return c.PageSize
	}
	longest := 1
	for _, n := range c.Lens {
		longest = max(longest, n)
	}
	return longest
}

// sequence is one sequence of a case as [attn.Direct] reads it: straight from
// the seed, past all pages.
type sequence struct {
	*Case
	seq int
}

func (s sequence) Len() int { return s.Lens[s.seq] }

func (s sequence) Key(dst []float32, head, pos int) {
	s.fill(dst, s.KType, 'k', s.seq, head, pos)
	if s.Case.Key != nil {
		s.Case.Key(dst, s.seq, head, pos)
		quantize(dst, s.KType)
	}
}

func (s sequence) Value(dst []float32, head, pos int) {
	s.fill(dst, s.VType, 'v', s.seq, head, pos)
	if s.Case.Value != nil {
		s.Case.Value(dst, s.seq, head, pos)
		quantize(dst, s.VType)
	}
}

// queryScale spreads the scores of random queries and keys: their standard
// deviation is queryScale/3, so a softmax has some keys that matter and many
// that matter less.
const queryScale = 4

// query fills dst with a query row, exactly representable in the keys' type.
func (c *Case) query(dst []float32, seq, query, head int) {
	c.fill(dst, c.KType, 'q', seq, head, query)
	for i := range dst {
		dst[i] *= queryScale
	}
	if c.Query != nil {
		c.Query(dst, seq, query, head)
	}
}

// fill makes a row of numbers, even over [−1, 1) and exactly representable in
// type t, from what the row is.
func (c *Case) fill(dst []float32, t kv.DType, what byte, seq, head, pos int) {
	bits := significand(t)
	state := c.Seed
	for _, x := range [...]int{int(what), c.id(seq), head, pos} {
		state = mix(state ^ uint64(x))
	}
	unit := 1 / float32(int(1)<<(bits-1))
	for i := range dst {
		state += 0x9e3779b97f4a7c15
		dst[i] = float32(int64(mix(state))>>(64-bits)) * unit
	}
}

// mix is the finalizer of SplitMix64.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
