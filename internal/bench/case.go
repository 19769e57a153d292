// Package bench makes decode steps and measures ways to compute them. The
// command's bench, the benchmarks of go test and the recorded results take their
// cases and their yardstick from here:
//
//	case.go     one step to measure, and its size
//	suite.go    named sets of cases
//	arena.go    the memory that cases lie in
//	view.go     a case laid out in that memory
//	impl.go     the ways to compute a case
//	ceiling.go  the bare read of the same bytes
//	plain.go    the loop that one writes first
//	measure.go  rounds of all ways in turns, and their medians
//	order.go    who comes after whom in a round
//	row.go      what is reported and recorded
//	compare.go  what changed beyond the noise
package bench

import (
	"slices"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/kv"
)

// Case is one decode step to measure, of one new query a sequence. Keys and
// values have the same type and dim.
type Case struct {
	Name           string
	Heads, KVHeads int
	Dim            int
	Lens           []int
	DType          kv.DType
	PageSize       int    // 0: contiguous
	InOrder        bool   // pages lie one after the other, not anywhere
	Window         int    // 0: none
	Invariant      bool   // split borders depend on the sequence alone
	Level          string // kernels to use, and what is chosen for them, "" for the best

	Turns   string // cases of a suite that share this are measured in turns; "": alone
	Against string // the one among them that it is compared with, "" for none
}

// Shape is the case's heads and dims.
func (c *Case) Shape() attn.Shape {
	return attn.Shape{NumHeads: c.Heads, NumKVHeads: c.KVHeads, KeyDim: c.Dim, ValueDim: c.Dim}
}

// Batch is what the engine plans; splits is 0 for as many as it likes.
func (c *Case) Batch(splits int) flashdec.Batch {
	return flashdec.Batch{
		Shape: c.Shape(), Options: attn.Options{Window: c.Window},
		Lens: c.Lens, KVBits: c.DType.Bits(), NumSplits: splits, Invariant: c.Invariant,
	}
}

// Keys is how many keys the step sees, all sequences together.
func (c *Case) Keys() int {
	sum := 0
	for _, n := range c.Lens {
		sum += c.seen(n)
	}
	return sum
}

// seen is how many keys of a sequence of n its query sees.
func (c *Case) seen(n int) int {
	if c.Window > 0 {
		return min(n, c.Window)
	}
	return n
}

// KVBytes is what the step must read: codes, and the scales of quantised types.
func (c *Case) KVBytes() int { return c.Keys() * c.KVHeads * 2 * (c.RowBytes() + c.scaleBytes()) }

// RowBytes is the size of a key, and of a value, of one head.
func (c *Case) RowBytes() int { return c.DType.RowBytes(c.Dim) }

// scaleBytes is the size of a row's scale: quantised types have one a token and
// head, as caches do by default.
func (c *Case) scaleBytes() int {
	if c.DType.Quantised() {
		return 4
	}
	return 0
}

// pageSlots is the slots of a page: contiguous sequences have one page each, as
// long as the longest.
func (c *Case) pageSlots() int {
	if c.PageSize > 0 {
		return c.PageSize
	}
	return slices.Max(c.Lens)
}

// pagesOf is how many pages of some slots a sequence of n keys has.
func pagesOf(n, slots int) int { return (n + slots - 1) / slots }

// StoredRows is how many rows of keys, and of values, its pages have.
func (c *Case) StoredRows() int {
	pages, slots := 0, c.pageSlots()
	for _, n := range c.Lens {
		pages += pagesOf(n, slots)
	}
	return pages * slots * c.KVHeads
}

// StoredBytes is what its pages take up, scales aside: keys and values together.
func (c *Case) StoredBytes() int { return 2 * c.StoredRows() * c.RowBytes() }
