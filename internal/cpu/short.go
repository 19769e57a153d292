package cpu

import (
	"math"

	"github.com/flashdec/flashdec/kv"
)

// Kernels that multiply bfloat16 as such want queries, and weights, that it holds. Queries
// that it does not hold take others. Weights are rounded, in groups that gain by it, and
// averages are over what they were rounded to, so that they are averages still, unless tokens'
// scales are part of them; l, which the LSE and merges are made of, is of the weights as they were.
//
// Those kernels take numbers below 2⁻¹²⁶ for zeros, and scores get their scale late. A chunk
// in which that may show is summed again by kernels that know all numbers.

// pairs says that queries which bfloat16 holds are multiplied as such, and scores get their
// scale then: one of a size that takes no sum that matters out of range before.
func (j *job) pairs() bool {
	const most = 256
	scale := math.Abs(j.launch.Options.ScaleFor(j.launch.Shape.KeyDim))
	return j.kernels.pairScores != nil && scale >= 1.0/most && scale <= most
}

// pairing says that the stream's queries are.
func (c *stream) pairing() bool { return c.paired && !c.plain }

// doubtful says that some score of the chunk is infinite or NaN, which need not be so with
// the scale in the queries.
func (c *stream) doubtful() bool {
	return c.pairing() && (c.hid || !allFinite(c.l[:c.rows]))
}

// rounds says that weights are rounded.
func (c *stream) rounds() bool { return c.job.kernels.rounded.accumulate != nil && !c.plain }

// averaged is what row r's sums are divided by.
func (c *stream) averaged(r int) float32 {
	if c.rounds() && c.job.launch.KV.V.Scales.Kind != kv.TokenScale {
		return c.rounded[r]
	}
	return c.l[r]
}

// sums are the kernels that add up weighted values.
func (c *stream) sums() *sums {
	if c.rounds() {
		return &c.job.kernels.rounded
	}
	return &c.job.kernels.sums
}
