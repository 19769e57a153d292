package cpu

import (
	"math"

	"github.com/flashdec/flashdec/internal/simd"
	"github.com/flashdec/flashdec/kv"
)

// Kernels that multiply bfloat16 as such, or 8-bit floats as what they are in it, want queries, and
// weights, that it holds. Queries that it does not hold take others. Weights are rounded, in groups that gain by it, and
// averages are over what they were rounded to, so that they are averages still, unless tokens'
// scales are part of them; l, which the LSE and merges are made of, is of the weights as they were.
//
// Those kernels take numbers below 2⁻¹²⁶ for zeros, and scores get their scale late. A chunk
// in which that may show is summed again by kernels that know all numbers.

// pairs says that queries which bfloat16 holds are multiplied as such, and scores get their
// scale then: one of a size that takes no sum that matters out of range before. Codes of 8 bits are
// between 2⁻¹⁶ and 2¹⁶, so that no sum of theirs comes near its ends.
func (j *job) pairs() bool {
	most := 256.0
	if j.kernels.k != simd.BF16 {
		most = 0x1p64
	}
	scale := math.Abs(j.lateScale())
	return j.kernels.pairScores != nil && scale >= 1/most && scale <= most
}

// lateScale is what scores of queries in pairs get: the softmax scale, and what all keys share.
func (j *job) lateScale() float64 {
	dim := j.launch.Shape.KeyDim
	return j.launch.Options.ScaleFor(dim) * float64(j.launch.KV.K.Scales.Shared(0, 0, dim))
}

// scaledLate says that keys with scales of a kind can meet queries as they are.
func scaledLate(kind kv.ScaleKind) bool {
	return kind == kv.NoScales || kind == kv.TensorScale || kind == kv.TokenScale
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
