// Package simd holds the kernels of the CPU's tile loop: scores, softmax,
// accumulation, and the conversions of the element types.
//
// A tile is at most [TileKeys] keys, or several tiles that are scored together, given by the byte offsets of their rows in
// one slice, so pages, contiguous caches and masks are all just offset lists. A
// tile step over the rows of a group (query rows that share a KV head) is
//
//	s[r,j] = Σ_d q[r,d]·k[j,d]                        Scores
//	m', α, p, l' from s, m, l                         Softmax
//	o[r,d] = o[r,d]·α[r] + Σ_j p[r,j]·v[j,d]          Accumulate
//
// All rows of one call see all keys of the tile. Where rows differ, a caller sets
// hidden scores to −Inf and calls [AccumulateVisible] in Accumulate's place.
//
// The kernels of quantised types multiply codes: a scale per channel belongs in
// q, one per token in s (keys) or in p (values), and the caller puts it there.
//
// Codes that are integers have kernels of their own at some levels, see [Integer],
// which come before the others.
//
// Plain Go is always built and is the reference of the assembly beside it; see
// [Level] for what runs.
package simd
