package plan

import "math/bits"

const (
	// InvariantKeys is the least number of keys a split has in invariant mode. A
	// split's state is written, read and merged once a row, about two keys' worth
	// of bytes a query head: 3% of 256 keys at four heads a group, and 2% of the
	// cache's memory.
	InvariantKeys = 256
	// invariantItems is how many items one long sequence becomes at most, in units of
	// a block's work on a GPU: two blocks for each of some 130 processors.
	invariantItems = 256
	// invariantFew is how many items a sequence becomes before its splits have twice
	// InvariantKeys: a GPU reads nearly as fast with a block on every other of its
	// multiprocessors, and a batch of sequences has fewer starts and merges to wait for.
	invariantFew = invariantItems / 4
	// rowsOfBlock is how many query rows a GPU's block takes: a unit of more rows is
	// several blocks.
	rowsOfBlock = 16
)

// invariantSplits is the number of splits of a query tile in invariant mode, a
// function of its sequence and of the model's heads alone: the largest power of two
// that leaves InvariantKeys a split, twice as many beyond invariantFew items of all
// heads, and makes no more than invariantItems of them. A power of two, because the number of items is then one, too, at the usual
// head counts, and widths are powers of two or little above (132): 97% of an H200
// runs in every wave, where 17 splits of 8 heads would need a second wave for 4
// items. In free mode the search makes that choice for any width.
func invariantSplits(c *cut, heads int) int {
	if c.keys() == 0 {
		return 0
	}
	units := heads * ceil(c.rows, rowsOfBlock)
	n := max(1, min(c.keys()/InvariantKeys, max(invariantFew/units, c.keys()/(2*InvariantKeys)), invariantItems/units))
	return 1 << (bits.Len(uint(n)) - 1)
}
