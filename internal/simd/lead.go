package simd

// Lead is how many rows ahead of its work a loop over tiles should fetch: scores of
// rows queries, or their sums, with rows of dim elements of type e. Where each plane
// leads its own reading by that much, the hardware's prefetcher, which sees misses
// shortly before their lines come, helps the software's (docs/calibration.md).
//
// It is at most a tile and a few more rows. Kernels that come to a tile's last rows long
// before they end, those of integers and AVX2's sums in many passes, gain where none of
// these is still to be fetched.
func Lead(e Elem, dim, rows int) int {
	switch {
	case asIntegers(e) && takesIntegers(dim):
		return leadInteger
	case comesEarly(e, dim, rows):
		return leadTile
	}
	bytes := LeadFar
	switch {
	case e == F32 && mostlyReads(e, dim, rows):
		return leadRows
	case onePass(e, dim, rows) && !fetchesEvenly(e):
		bytes = leadNear
	case e == F32 && useAVX512:
		bytes = leadFarthest
	}
	most := leadTile
	if rows == 1 && inPairs(e) || fetchesEvenly(e) {
		most = leadShort
	}
	return min(max(bytes/max(e.RowBytes(dim), 1), 1), most)
}

// LeadScores is Lead for scores of keys that lie in long runs, or 0 where nothing is to be fetched.
func LeadScores(e Elem, dim, rows int) int {
	switch {
	case keyByKey(e, dim, rows):
		return 0
	case mostlyReads(e, dim, rows):
		return leadRows
	}
	return Lead(e, dim, rows)
}

// keyByKey says that keys are best scored one after the other, where they lie in long runs: then, too, the hardware's
// prefetcher does best alone.
func keyByKey(e Elem, dim, rows int) bool {
	return inHalves && asIntegers(e) && e == I8 && rows == 1 && dim == keyDim
}

const keyDim = 128 // of longer rows registers do not hold the digits; shorter ones leave too little time for a line

// LeadSums is Lead for sums of values that lie in long runs, or 0 where nothing is to be fetched:
// where kernels that compute for a third as long as they read go through rows from front to back, the
// hardware's prefetcher does best alone. Sums take a row at a time where scores of several queries
// take several, so that a few rows are best for larger groups of them.
func LeadSums(e Elem, dim, rows int) int {
	switch {
	case !useAVX512 || !inHalves:
	case rows == 1 && e == I8 && asIntegers(e) && takesIntegers(dim):
		return 0
	case rows == 1 && inPairs(e) && e.RowBytes(dim) >= longEight:
		return 2 * leadRows
	case rows*dim <= registerSums && (e == F32 && rows <= 4 || rows <= 2 && readsLonger(e)):
		return leadRows
	}
	return Lead(e, dim, rows)
}

// LeadBeside is how many bytes ahead of its work a loop over rows of heads side by side, in
// the order of memory, should fetch: scores of rows queries of each head, or their sums.
// Where one page lies behind the other, what holds for a row that is read alone holds for
// all of them; else the hardware's prefetcher begins anew with each page.
func LeadBeside(e Elem, dim, rows int, inOrder bool) int {
	if inOrder && mostlyReads(e, dim, rows) {
		return leadRows * e.RowBytes(dim)
	}
	return LeadFar
}

// Bytes ahead: enough for the memory's latency where a row is read once, from front
// to back, and more where sums come back to it in further passes. A few rows are best
// where next to nothing but reading is done, in order and without a pause: then the
// hardware's prefetcher does the most of it, but begins anew with each run.
const (
	leadRows     = 4
	leadNear     = 10 << 10
	LeadFar      = 16 << 10
	leadFarthest = 32 << 10 // f32 in several passes, or fetched evenly
)

// leadTile is a tile and some more, for kernels that come to a tile's last rows early;
// leadInteger is for integers', whose rows are short and which touch a block of 16 keys of
// the next tile before they take it; leadShort for rows that a tile of is not far enough ahead.
const (
	leadTile    = TileKeys + 16   // docs/calibration.md
	leadInteger = 2*TileKeys - 16 // docs/calibration.md
	leadShort   = 2*TileKeys - 16 // docs/calibration.md
)

// longEight is the least row of 8-bit floats, in bytes, whose values the hardware's prefetcher leads best.
const longEight = 128 // docs/calibration.md

// fetchesEvenly says that kernels fetch a line ahead with each that they read, and, an eighth as far ahead, into the first
// cache: where 512 bits are done at once.
func fetchesEvenly(e Elem) bool {
	return useAVX512 && !inHalves && (readsLonger(e) || e == E5M2)
}

// inPairs says that 8-bit floats are summed two keys at a time.
func inPairs(e Elem) bool { return useDots && (e == E4M3 || e == E5M2) }

// comesEarly says that sums read a part of all of a tile's values first, and that fetching
// a tile ahead makes up for it: where there is more to compute than to read of one row.
func comesEarly(e Elem, dim, rows int) bool {
	return useAVX2 && !useAVX512 && (rows > 1 || e == F32) && leadTile*e.RowBytes(dim) <= leadMost
}

// leadMost is the most bytes of a plane to lead by, of second caches of 256 KB.
const leadMost = 96 << 10

// registerSums are the sums that registers hold beside all else: 24 of 16.
const registerSums = 384

// onePass says that sums read each value once: that registers hold them all, or that rows
// take turns.
func onePass(e Elem, dim, rows int) bool {
	return useAVX512 && (rows*dim <= registerSums || takesTurns(e, dim) && rows <= MaxRows)
}

// turnRow is what rows are multiples of for kernels in which they take turns.
const turnRow = 128

// takesTurns says that rows take turns with a few keys at a time.
func takesTurns(e Elem, dim int) bool { return inHalves && e == F32 && dim%turnRow == 0 }

// mostlyReads says that next to nothing but reading is done, and that the processor's
// prefetcher then reads faster by itself: Zen 4's does, a Xeon's is a third slower so.
func mostlyReads(e Elem, dim, rows int) bool {
	return useAVX512 && inHalves && (rows == 1 && readsLonger(e) && onePass(e, dim, rows) || rows == 2 && e == F32 && dim <= turnRow)
}

// SweepKeys is how many keys a loop should score before it reads the first of their
// values: whole tiles. The pauses between scores and sums, in which memory idles and its
// prefetchers begin anew, are then fewer, and so is what listing rows and their scales
// costs.
//
// A softmax adds up no more weights in a lane of a vector than a tile has keys, or sums of
// as many tiles, so that sums of weights are off no further than sums of values.
func SweepKeys(group int) int {
	return min(max(sweepScores(group)/group/TileKeys, 1), sweepTiles()) * TileKeys
}

// sweepScores is how many scores a sweep has, of all rows of a group.
func sweepScores(group int) int {
	if useAVX512 && (group == 1 || inHalves) {
		return 4096 // docs/calibration.md
	}
	return 2048
}

// readsLonger says that reading rows takes longer than computing with them, in small
// groups.
func readsLonger(e Elem) bool { return e <= BF16 }

// sweepTiles is the most tiles of a sweep. Where the softmax adds up tile by tile, as many as
// a tile has keys; else as many as a vector has lanes.
func sweepTiles() int {
	switch {
	case useAVX2:
		return TileKeys
	case useNEON:
		return 4
	}
	return 1
}

// MaxRows is the most rows that kernels take at once: of more, they read keys and
// values again for the rest.
const MaxRows = 8
