package cpu

import "github.com/flashdec/flashdec/internal/simd"

// A sweep is the keys that are scored before the first of their values is read: tiles
// that follow one another. The longer it is, the fewer are the pauses in which memory
// idles and its prefetchers begin anew, and the larger are the scores.

// stride is how far apart rows of scores lie: a line more than a sweep's, so that they
// do not all fall into the same sets of a cache.
func (j *job) stride() int { return j.sweepKeys + 16 }

// tilesOf is how many tiles so many keys are.
func tilesOf(keys int) int { return (keys + simd.TileKeys - 1) / simd.TileKeys }

// ofTiles is the part of a list for a sweep's keys that n tiles from tile i on have.
func ofTiles[T any](list []T, i, n int) []T {
	return list[min(i*simd.TileKeys, len(list)):min((i+n)*simd.TileKeys, len(list))]
}

// sweep takes the keys [lo, hi), which sweeps[0] lists, into the running sums of the
// streams that walk together.
func (w *worker) sweep(lo, hi int) {
	for h := range w.walking {
		w.fetchScales(h)
		w.walking[h].listKeys(lo, hi)
	}
	if w.rows == w.group() && w.job.launch.Options.Mask == nil { // one query sees what is walked
		w.together(lo, hi)
		return
	}
	for h := range w.walking {
		w.walking[h].apart(lo, hi)
	}
}

// together does the steps of a sweep for all streams. Streams side by side go through pages in
// the order of memory, or take a tile in turn.
func (w *worker) together(lo, hi int) {
	streams, tiles := w.walking, tilesOf(hi-lo)
	for h := range streams {
		streams[h].part = part{0, w.rows, lo, streams[h].keys}
	}
	if len(streams) == 1 {
		streams[0].lead(lo, hi)
		streams[0].attend()
		return
	}
	if w.job.walksBeside(len(streams)) {
		w.walkBeside(lo, hi)
		return
	}
	for i := range tiles {
		for h := range streams {
			streams[h].score(i, 1, streams[h].scoring(h, i, lo, hi))
		}
	}
	for h := range streams {
		streams[h].weigh()
	}
	for i := range tiles {
		for h := range streams {
			streams[h].add(i, 1, streams[h].summing(h, i, lo, hi))
		}
	}
}

// apart does the steps of a sweep for one part of the query tile after the other.
// Queries that see the same of the keys are neighbours, and go together.
func (c *stream) apart(lo, hi int) {
	group := c.group()
	n := c.rows / group
	c.lead(lo, hi)
	for i := 0; i < n; {
		from, to := c.within(i, lo, hi)
		end := i + 1
		if c.job.launch.Options.Mask == nil {
			for end < n && c.seesToo(end, lo, hi, from, to) {
				end++
			}
		}
		c.part = part{i * group, (end - i) * group, from, c.seen(i, lo, from, to)}
		if len(c.part.keys.k) > 0 {
			c.attend()
			c.leads = [2]leads{}
		}
		i = end
	}
}

// attend does the steps of a sweep for a part of the query tile.
func (c *stream) attend() {
	tiles := tilesOf(len(c.part.keys.k))
	for i, n := 0, c.atOnce(tiles, c.job.kernels.integerK); i < tiles; i += n {
		c.score(i, n, c.led(&c.job.k, &c.leads[0], i, n, tiles))
	}
	c.weigh()
	n := c.atOnce(tiles, c.job.kernels.integerV)
	if c.hidden {
		n = 1
	}
	for i := 0; i < tiles; i += n {
		c.add(i, n, c.led(&c.job.v, &c.leads[1], i, n, tiles))
	}
}

// part is rows [first, first + rows) of a query tile, all of which see all of the keys. Those begin at the
// sequence's key number from, or, where a mask hides that, behind it.
type part struct {
	first, rows, from int
	keys              sweep
}

// atOnce is how many of so many tiles are scored, or summed, by one call: all, without a
// pause, where the rows are a kernel's; else one, which stays in the cache for the next
// rows.
func (c *stream) atOnce(tiles int, integer *simd.Integer) int {
	most := simd.MaxRows
	if integer != nil {
		most = simd.MaxIntegerRows
	}
	if c.part.rows <= most {
		return tiles
	}
	return 1
}

// score computes the scores of n tiles from tile i on.
func (c *stream) score(i, n int, ahead simd.Ahead) {
	p, dim, stride, kernels := &c.part, c.job.launch.Shape.KeyDim, c.job.stride(), &c.job.kernels
	s, q, scales := c.s[i*simd.TileKeys:], c.q[p.first*dim:], ofTiles(p.keys.kScale, i, n)
	keys := simd.Tile{Data: c.job.k.of(c.item.Head), Off: ofTiles(p.keys.k, i, n)}
	if integer := kernels.integerK; integer != nil {
		integer.Scores(s, stride, q, c.digits[p.first*simd.DigitsBytes(dim):], p.rows, dim, keys, scales, &c.left, ahead)
		return
	}
	if c.pairing() {
		kernels.pairScores(s, stride, c.pairs[simd.PairsLen(kernels.k, p.first*dim):], p.rows, dim, keys, ahead)
		simd.ScaleScores(s, stride, p.rows, c.job.scales[:len(keys.Off)])
	} else {
		kernels.scores(s, stride, q, p.rows, dim, keys, ahead)
	}
	simd.ScaleScores(s, stride, p.rows, scales)
}

// weigh turns the sweep's scores into weights.
func (c *stream) weigh() {
	p, stride := &c.part, c.job.stride()
	keys := len(p.keys.k)
	if !c.rules.plain() {
		for r := range p.rows {
			c.rules.apply(c.s[r*stride:][:keys], p.first+r, p.keys.pos)
		}
	}
	c.hidden = simd.Softmax(c.s, stride, p.rows, keys, c.m[p.first:], c.l[p.first:], c.alpha)
	c.hid = c.hid || c.hidden
	c.comeDown()
	c.scaleWeights(c.s, p.first, p.rows, keys, p.keys.vScale)
	if c.job.kernels.integerV != nil {
		for r := p.first; r < p.first+p.rows; r++ {
			c.most[r] = simd.LightShare * c.l[r] * c.unit[r]
		}
	}
	if c.rounds() {
		simd.RoundWeights(c.s, stride, p.rows, keys, c.rounded[p.first:], c.alpha)
	}
}

// add adds the weighted values of n tiles from tile i on to o.
func (c *stream) add(i, n int, ahead simd.Ahead) {
	p, dim, stride, kernels := &c.part, c.job.launch.Shape.ValueDim, c.job.stride(), &c.job.kernels
	o, weights, alpha := c.o[p.first*dim:], c.s[i*simd.TileKeys:], c.alpha
	if i > 0 {
		alpha = c.ones // the sweep's first tile has come down to its m
	}
	values := simd.Tile{Data: c.job.v.of(c.item.Head), Off: ofTiles(p.keys.v, i, n)}
	switch {
	case c.hidden: // a score of −Inf, though visible: it has no weight, so no value
		simd.AccumulateVisible(kernels.v, o, p.rows, dim, weights, stride, alpha, values, ahead)
	case kernels.integerV != nil:
		kernels.integerV.Accumulate(o, p.rows, dim, weights, stride, alpha, values, ofTiles(p.keys.vScale, i, n), c.most[p.first:], p.from/simd.TileKeys+i, ahead)
	default:
		c.sums().accumulate(o, p.rows, dim, weights, stride, alpha, values, ahead)
	}
}
