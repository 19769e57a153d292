package cpu

import (
	"github.com/flashdec/flashdec/internal/simd"
	"github.com/flashdec/flashdec/kv"
)

// Streams side by side walk pages in the order of memory: what a page holds of one KV
// head, then of the next, then the next page, a tile of all of them by one call of a
// kernel. Where pages follow one another memory is one long row.

const (
	// stretchKeys are the fewest keys of a head that are worth a turn: of smaller
	// pages, a turn takes several.
	stretchKeys = 16

	// pieceBytes is what is listed at a time of a page that is fetched ahead.
	pieceBytes = 4 << 10
)

// besides is how streams side by side go through a plane in a sweep.
type besides struct {
	heads   simd.Heads // as kernels see them
	inOrder bool       // what is read is one long row
	lead    int        // how many bytes ahead it is fetched
	pieces  []int      // where it is not in order: of pages that begin in the sweep, and then
	listed  int        // so many
	each    int        // pieces a page
	bytes   int        // of a piece
}

// walksBeside reports whether so many streams side by side go through both planes in the
// order of memory.
func (j *job) walksBeside(streams int) bool {
	size := j.launch.KV.PageSize
	return j.kernels.headsScores != nil && j.kernels.headsAccumulate != nil && j.k.together(streams, size) && j.v.together(streams, size)
}

// together reports whether what a page holds of so many heads lies together: rows of a
// head, then the next head's, of a page no larger than a tile; or those of a slot, then
// the next slot's.
func (p *plane) together(heads, pageSize int) bool {
	if p.pitch.slot == p.row {
		return p.pitch.head == pageSize*p.row && pageSize <= simd.TileKeys
	}
	return p.pitch.head == p.row && p.pitch.slot == heads*p.row
}

// reserve makes room for a sweep of so many streams.
func (b *besides) reserve(j *job, p *plane, streams int) {
	size, n := j.launch.KV.PageSize, 1
	if size <= simd.TileKeys {
		b.cut(streams * size * p.row)
		n = (j.sweepKeys/size+2)*b.each + simd.LeadFar/b.bytes
	}
	b.pieces = resize(b.pieces, n)
}

// cut makes even pieces of a page.
func (b *besides) cut(page int) {
	b.each = (page + pieceBytes - 1) / pieceBytes
	b.bytes = (page + b.each - 1) / b.each
}

// walkBeside does the steps of a sweep of the keys [lo, hi) for streams side by side.
func (w *worker) walkBeside(lo, hi int) {
	shape, kernels := &w.job.launch.Shape, &w.job.kernels
	w.layBeside(&w.besides[0], &w.job.k, kernels.k, shape.KeyDim, lo, hi)
	w.layBeside(&w.besides[1], &w.job.v, kernels.v, shape.ValueDim, lo, hi)
	tiles := tilesOf(hi - lo)
	for i := range tiles {
		w.scoreBeside(i, lo, hi)
	}
	hidden := false
	for h := range w.walking {
		w.walking[h].weigh()
		hidden = hidden || w.walking[h].hidden
	}
	for i := range tiles {
		if !hidden {
			w.addBeside(i, lo, hi)
			continue
		}
		for h := range w.walking {
			w.walking[h].add(i, 1, simd.Ahead{})
		}
	}
}

// layBeside lays out how a sweep of the keys [lo, hi) goes through a plane of rows of dim
// elements.
func (w *worker) layBeside(b *besides, p *plane, e simd.Elem, dim, lo, hi int) {
	size, a := w.job.launch.KV.PageSize, area{w.seq, w.walking[0].item.Head, len(w.walking), lo, hi}
	b.heads = simd.Heads{
		N: a.heads, Pitch: p.pitch.head, Scores: w.roomBeside * w.job.stride(), Rows: w.roomBeside * dim, Alpha: w.roomBeside,
		Partial: w.aside * dim, Run: stretchKeys,
	}
	if p.pitch.slot == p.row { // whole pages
		b.heads.Run = (stretchKeys + size - 1) / size * size
	}
	b.inOrder = size > simd.TileKeys || p.pitch.page == a.heads*size*p.row && w.follow(lo, hi)
	b.lead = simd.LeadBeside(e, dim, w.rows, b.inOrder)
	if b.inOrder {
		return
	}
	b.cut(a.heads * size * p.row)
	n := w.piecesOf(b.pieces, b, p, &a)
	b.listed = n + w.piecesOf(b.pieces[n:min(n+b.lead/b.bytes, len(b.pieces))], b, p, &w.next)
}

// follow reports whether the pages of the keys [lo, hi) lie one behind the other.
func (w *worker) follow(lo, hi int) bool {
	at := w.pages(w.seq, lo, hi)
	at.next()
	for last := at.page; at.next(); last++ {
		if at.page != last+1 {
			return false
		}
	}
	return true
}

// piecesOf lists where the pieces of the pages that begin in an area do, as far as there is
// room, and yields how many there are.
func (w *worker) piecesOf(off []int, b *besides, p *plane, a *area) int {
	n := 0
	for at := w.pages(a.seq, a.lo, a.hi); n < len(off) && at.next(); {
		if at.slot > 0 {
			continue // the sweep before has it
		}
		page := off[n:min(n+b.each, len(off))]
		evenly(page, int(at.page)*p.pitch.page+a.head*p.pitch.head, b.bytes)
		n += len(page)
	}
	return n
}

// aheadBeside makes the heads those of tile i of a sweep of the keys [lo, hi), and yields
// what is fetched meanwhile: as much as the pages that begin in the tile hold, or, where
// slots go before heads, the tile.
func (w *worker) aheadBeside(i int, b *besides, p *plane, lo, hi int) simd.Ahead {
	a, size := w.tile(i, lo, hi), w.job.launch.KV.PageSize
	b.heads.First = b.heads.Run - a.lo%b.heads.Run
	first, last := (a.lo+size-1)/size, (a.hi+size-1)/size // pages
	if !b.inOrder {
		begun, lead := (lo+size-1)/size, b.lead/b.bytes
		from, to := (first-begun)*b.each+lead, (last-begun)*b.each+lead
		return simd.Ahead{Data: p.data, Off: b.pieces[min(from, b.listed):min(to, b.listed)], Bytes: b.bytes}
	}
	at := w.pages(a.seq, a.lo, a.hi)
	at.next()
	begin, keys := at.slot*p.pitch.slot, a.hi-a.lo
	if p.pitch.slot == p.row {
		begin, keys = (first-a.lo/size)*p.pitch.page, (last-first)*size
	}
	b.pieces[0] = int(at.page)*p.pitch.page + a.head*p.pitch.head + begin + b.lead
	return simd.Ahead{Data: p.data, Off: b.pieces[:1], Bytes: keys * a.heads * p.row}
}

// scoreBeside computes the scores of tile i of all streams.
func (w *worker) scoreBeside(i, lo, hi int) {
	c, b, stride := &w.walking[0], &w.besides[0], w.job.stride()
	ahead := w.aheadBeside(i, b, &w.job.k, lo, hi)
	keys := simd.Tile{Data: w.job.k.of(c.item.Head), Off: ofTiles(c.keys.k, i, 1)}
	s, dim, pairing := w.s[i*simd.TileKeys:], w.job.launch.Shape.KeyDim, 0
	for h := range w.walking {
		if w.walking[h].pairing() {
			pairing++
		}
	}
	switch pairing {
	case 0:
		w.job.kernels.headsScores(s, stride, w.q, w.rows, dim, keys, &b.heads, ahead)
	case len(w.walking):
		w.job.kernels.headsPairScores(s, stride, w.pairs, w.rows, dim, keys, &b.heads, ahead)
		for h := range w.walking {
			simd.ScaleScores(w.walking[h].s[i*simd.TileKeys:], stride, w.rows, w.job.scales[:len(keys.Off)])
		}
	default:
		for h := range w.walking {
			w.walking[h].score(i, 1, ahead)
			ahead = simd.Ahead{}
		}
		return // with the scales of their tokens
	}
	if w.job.launch.KV.K.Scales.Kind != kv.TokenScale {
		return
	}
	for h := range w.walking {
		c := &w.walking[h]
		simd.ScaleScores(c.s[i*simd.TileKeys:], stride, w.rows, ofTiles(c.keys.kScale, i, 1))
	}
}

// addBeside adds the weighted values of tile i to the sums of all streams.
func (w *worker) addBeside(i, lo, hi int) {
	c, b, alpha := &w.walking[0], &w.besides[1], w.alpha
	if i > 0 {
		alpha = w.ones // the sweep's first tile has come down to its m
	}
	ahead := w.aheadBeside(i, b, &w.job.v, lo, hi)
	values := simd.Tile{Data: w.job.v.of(c.item.Head), Off: ofTiles(c.keys.v, i, 1)}
	c.sums().headsAccumulate(w.o, w.rows, w.job.launch.Shape.ValueDim, w.s[i*simd.TileKeys:], w.job.stride(), alpha, values, &b.heads, ahead)
}
