package cpu

import (
	"math"

	"github.com/flashdec/flashdec/attn"
)

// scorer turns q·k into scores, in the order scale, softcap, bias. The scale is
// already in q: q·scale, a product in float64, rounds each element once, as the
// product with k does.
type scorer struct {
	scale   float64
	softcap float64
	slopes  []float32 // [group] ALiBi; nil is none
	// first and last are, for each query of the tile, the outermost keys of the
	// running chunk that it sees. Biases are relative to the one of them that has
	// the larger bias: adding a constant to all scores of a chunk only shifts its m,
	// so the scores that matter stay near zero, where a float32 is fine, however far
	// the keys are from the query. shift puts the rest back in float64.
	first, last [queryTile]int
}

// begin takes up the rules for the query heads of a KV head.
func (c *scorer) begin(opt *attn.Options, shape attn.Shape, head int) {
	c.scale = opt.ScaleFor(shape.KeyDim)
	c.softcap = opt.Softcap
	c.slopes = nil
	if opt.Slopes != nil {
		group := shape.GroupSize()
		c.slopes = opt.Slopes[head*group:][:group]
	}
}

// scaled is dst = q·scale, rounded once.
func (c *scorer) scaled(dst, q []float32) {
	for i, x := range q {
		dst[i] = float32(float64(x) * c.scale)
	}
}

// plain reports that scores need nothing but the scale.
func (c *scorer) plain() bool { return c.softcap == 0 && c.slopes == nil }

// apply takes row r's products with the keys at pos to scores.
func (c *scorer) apply(s []float32, r int, pos []int) {
	if c.softcap != 0 {
		for j, x := range s {
			s[j] = float32(c.softcap * math.Tanh(float64(x)/c.softcap))
		}
	}
	if c.slopes != nil {
		slope, reference := c.slope(r)
		for j, p := range pos[:len(s)] {
			s[j] += slope * float32(p-reference)
		}
	}
}

// shift is what the scores of row r lack of their full bias.
func (c *scorer) shift(r, position int) float64 {
	if c.slopes == nil {
		return 0
	}
	slope, reference := c.slope(r)
	return float64(slope) * float64(reference-position)
}

// slope is row r's, with the key position that its biases are relative to.
func (c *scorer) slope(r int) (slope float32, reference int) {
	group := len(c.slopes)
	slope = c.slopes[r%group]
	if slope < 0 {
		return slope, c.first[r/group]
	}
	return slope, c.last[r/group]
}
