package plan

import "math/bits"

const (
	// InvariantKeys is the least number of keys a split has in invariant mode. A
	// split's state is written, read and merged once a row, about two keys' worth
	// of bytes a query head: 3% of 256 keys at four heads a group, and 2% of the
	// cache's memory.
	InvariantKeys = 256
	// maxInvariantSplits is the most splits of a unit: with one KV head, one long sequence still fills a
	// GPU of 132 processors.
	maxInvariantSplits = 128
)

// invariantSplits is the number of splits in invariant mode, a function of the
// number of keys alone: the largest power of two that leaves InvariantKeys a
// split. A power of two, because the number of items is then one, too, at the
// usual head counts, and widths are powers of two or little above (132): 97% of
// an H200 runs in every wave, where 17 splits of 8 heads would need a second
// wave for 4 items. In free mode the search makes that choice for any width.
func invariantSplits(keys int) int {
	if keys == 0 {
		return 0
	}
	n := max(1, keys/InvariantKeys)
	return min(1<<(bits.Len(uint(n))-1), maxInvariantSplits)
}
