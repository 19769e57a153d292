package backendtest

import (
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/kv"
)

var quantNumbers = []test{
	{"LargeQueriesTimesScales", (*config).quantLargeQuery},
	{"HugeQueriesTimesTinyScales", (*config).quantHugeQuery},
	{"LargeValues", (*config).quantLargeValues},
	{"RegularValues", (*config).quantRegular},
	{"ZeroScalesGiveZeros", (*config).quantZeros},
	{"SubnormalScales", (*config).quantSubnormal},
	{"NaNScales", (*config).quantNaNScales},
	{"HiddenNaNScalesDoNotMatter", (*config).quantHiddenNaN},
	{"NaNCodes", (*config).quantNaNCodes},
	{"KeysOfNoWeight", (*config).quantNoWeight},
	{"InfiniteCodes", (*config).quantInfinite},
	{"ScalesBeforeRules", (*config).quantRules},
}

// quantLargeQuery: a query that a channel's scale takes past a half's range, and
// nothing but zeros to multiply; and codes that a scale of zero silences.
func (c *config) quantLargeQuery(t *testing.T, b backend.Backend) {
	for _, dtype := range quantTypes {
		for _, kind := range keyKinds[1:] {
			q := quantSmall(dtype, kind, kv.TensorScale, 40)
			q.Query = func(dst []float32, _, _, _ int) { fillWith(dst, 60000) }
			q.number = func(what byte, dst []float32, _, _, pos int) {
				if what == 'k' {
					clear(dst)
					dst[pos%2] = 1
				}
			}
			q.scale = func(what byte, t kv.DType, of scaleOf, random uint64) float32 {
				if what == 'k' {
					return 4 * float32(of.channel&1)
				}
				return plainScale(what, t, of, random)
			}
			c.verifyQuant(t, b, q)
		}
	}
}

// quantHugeQuery: scores near 10, of a query near float32's largest number, and
// a scale so small that its product with the softmax scale alone is a subnormal.
func (c *config) quantHugeQuery(t *testing.T, b backend.Backend) {
	for _, dtype := range quantTypes {
		for _, kind := range []kv.ScaleKind{kv.TensorScale, kv.HeadScale, kv.ChannelScale} {
			q := quantSmall(dtype, kind, kv.TensorScale, 40)
			q.Query = func(dst []float32, _, _, _ int) { fillWith(dst, 2e38) }
			q.number = func(what byte, dst []float32, _, _, pos int) {
				if what == 'k' {
					clear(dst)
					dst[pos%7] = largest(dtype) * float32(pos%2)
				}
			}
			q.scale = func(what byte, t kv.DType, of scaleOf, random uint64) float32 {
				if what == 'k' {
					return plainScale(what, t, of, random) * 2e-37
				}
				return plainScale(what, t, of, random)
			}
			c.verifyQuant(t, b, q)
		}
	}
}

// quantLargeValues: values far above 1, of one sign.
func (c *config) quantLargeValues(t *testing.T, b backend.Backend) {
	for _, dtype := range quantTypes {
		for _, kind := range valueKinds[1:] {
			for _, factor := range []float32{1e32, -1e32} {
				q := quantSmall(dtype, kv.TokenScale, kind, 200, 3)
				q.scale = func(what byte, t kv.DType, of scaleOf, random uint64) float32 {
					if what == 'v' {
						return plainScale(what, t, of, random) * factor
					}
					return plainScale(what, t, of, random)
				}
				c.verifyQuant(t, b, q)
			}
		}
	}
}

// quantZeros: with values' scales of zero the output is exactly zero, and with
// keys' all scores are.
func (c *config) quantZeros(t *testing.T, b backend.Backend) {
	for i, dtype := range quantTypes {
		for _, kind := range keyKinds[1:] {
			q := quantSmall(dtype, kind, turn(valueKinds[1:], i), 40, 7)
			q.scale = func(byte, kv.DType, scaleOf, uint64) float32 { return 0 }
			for j, x := range c.verifyQuant(t, b, q).Out {
				if x != 0 {
					t.Fatalf("%v: out[%d] is %v, want 0", dtype, j, x)
				}
			}
		}
	}
}

// quantSubnormal: all values are tiny, and just as exact.
func (c *config) quantSubnormal(t *testing.T, b backend.Backend) {
	for _, dtype := range quantTypes {
		for _, kind := range valueKinds[1:] {
			q := quantSmall(dtype, kv.TensorScale, kind, 200, 3)
			q.scale = func(what byte, t kv.DType, of scaleOf, random uint64) float32 {
				if what == 'v' {
					return subnormalScale(what, t, of, random)
				}
				return plainScale(what, t, of, random)
			}
			c.verifyQuant(t, b, q)
		}
	}
}

// quantNaNScales: a token whose scale is NaN, or infinite, makes the rows that
// see it NaN, and no other.
func (c *config) quantNaNScales(t *testing.T, b backend.Backend) {
	for i, dtype := range quantTypes {
		for _, what := range []byte{'k', 'v'} {
			for _, bad := range []float32{nan(), inf(1), inf(-1)} {
				q := quantSmall(dtype, kv.TokenScale, kv.TokenScale, 70, 30)
				q.Queries, q.Options.Causal = []int{5, 1}, true
				q.scale = func(w byte, t kv.DType, of scaleOf, random uint64) float32 {
					if w == what && of.seq == 0 && of.head == 1 && of.pos == 67 {
						return bad
					}
					return signedScale(w, t, of, random)
				}
				q.NumSplits = i
				c.verifyQuant(t, b, q)
			}
		}
	}
}

// quantHiddenNaN: a hidden token's scale is not looked at.
func (c *config) quantHiddenNaN(t *testing.T, b backend.Backend) {
	for _, dtype := range quantTypes {
		q := quantSmall(dtype, kv.TokenScale, kv.TokenScale, 70, 30)
		q.Options.Mask = &attn.Mask{Seqs: 1, Queries: 1, Keys: 70, Visible: randomMask(5, 70, 4)}
		q.scale = func(what byte, t kv.DType, of scaleOf, random uint64) float32 {
			if q.Options.Mask.Visible[of.pos] == 0 {
				return nan()
			}
			return signedScale(what, t, of, random)
		}
		c.verifyQuant(t, b, q)
	}
}

// quantNaNCodes: a code that is NaN counts as NaN, whatever its scale.
func (c *config) quantNaNCodes(t *testing.T, b backend.Backend) {
	for _, dtype := range quantTypes[:2] {
		for _, what := range []byte{'k', 'v'} {
			for _, kind := range valueKinds {
				q := quantSmall(dtype, kind, kind, 70, 30)
				q.number = func(w byte, dst []float32, seq, head, pos int) {
					if w == what && seq == 0 && head == 1 && pos == 20 {
						dst[3] = nan()
					}
				}
				for _, q.scale = range scalesOf {
					c.verifyQuant(t, b, q)
				}
			}
		}
	}
}

// quantNoWeight: a visible key with a score of −Inf has no weight, so its value
// is not read, whatever the sign of its scale; a key whose weight is merely too
// small for a float32 is.
func (c *config) quantNoWeight(t *testing.T, b backend.Backend) {
	for _, light := range []bool{false, true} {
		q := quantSmall(kv.F8E5M2, kv.TokenScale, kv.TokenScale, 70)
		q.VType = kv.F8E4M3
		q.Query = func(dst []float32, _, _, _ int) {
			clear(dst)
			dst[0] = 1000
		}
		q.number = func(what byte, dst []float32, _, _, pos int) {
			switch {
			case what == 'k':
				clear(dst)
				if pos%7 == 1 {
					dst[0] = inf(-1)
				} else if pos == 12 {
					dst[0] = -57344
				}
			case pos%7 == 1 || light && pos == 12:
				dst[pos%len(dst)] = nan()
			}
		}
		q.scale = func(what byte, t kv.DType, of scaleOf, random uint64) float32 {
			if what == 'k' {
				return 1
			}
			return -plainScale(what, t, of, random)
		}
		c.verifyQuant(t, b, q)
	}
}

// quantInfinite: E5M2 has infinities.
func (c *config) quantInfinite(t *testing.T, b backend.Backend) {
	for _, what := range []byte{'k', 'v'} {
		for _, kind := range valueKinds {
			q := quantSmall(kv.F8E5M2, kind, kind, 70, 30)
			q.number = func(w byte, dst []float32, _, head, pos int) {
				if w == what && pos == 20 {
					dst[3] = inf(2*head - 1)
				}
			}
			for _, q.scale = range []func(byte, kv.DType, scaleOf, uint64) float32{plainScale, signedScale} {
				c.verifyQuant(t, b, q)
			}
		}
	}
}

// quantRules: a score has all its scales before it is capped or biased.
func (c *config) quantRules(t *testing.T, b backend.Backend) {
	for i, kind := range keyKinds {
		for _, dtype := range quantTypes {
			q := quantSmall(dtype, kind, turn(valueKinds, i), 120, 31)
			q.Options = attn.Options{
				Softcap: 2, Causal: true, Window: 50, Scale: 0.3,
				Slopes: []float32{0.1, -0.2, 0.02, 0.3}, Sinks: []float32{0, 1, -1, 0.5},
			}
			q.Queries, q.scale = []int{3, 1}, signedScale
			c.verifyQuant(t, b, q)
		}
	}
}
