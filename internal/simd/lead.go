package simd

// Lead is how many rows ahead of its work a loop over tiles should fetch: scores of
// rows queries, or their sums, with rows of dim elements of type e. Where each plane
// leads its own reading by that much, the hardware's prefetcher, which sees misses
// shortly before their lines come, helps the software's (docs/calibration.md).
//
// It is at most [TileKeys] less a few: a lead of a whole tile or more gains less.
func Lead(e Elem, dim, rows int) int {
	bytes := leadFar
	if onePass(e, dim, rows) {
		bytes = leadNear
	}
	return min(max(bytes/max(e.RowBytes(dim), 1), 1), TileKeys-8)
}

// Bytes ahead: enough for the memory's latency where a row is read once, from front
// to back, and more where sums come back to it in further passes.
const (
	leadNear = 10 << 10
	leadFar  = 16 << 10
)

// onePass says that sums read each value once: that the registers hold them all.
func onePass(e Elem, dim, rows int) bool {
	const sums = 384 // 24 registers of 16
	return useAVX512 && (rows*dim <= sums || inHalves && e == F32 && rows <= 4)
}
