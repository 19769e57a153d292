package backendtest

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/kv"
)

var quantSweeps = []test{
	{"EveryTypeAndScale", (*config).quantTypes},
	{"BesideOtherTypes", (*config).quantMixed},
	{"EveryDim", (*config).quantDims},
	{"EverySplit", (*config).quantSplits},
	{"LongChunks", (*config).quantLong},
	{"Caches", (*config).quantCaches},
	{"ContiguousTensors", (*config).quantContiguous},
	{"EndsAtInaccessiblePage", (*config).quantCliff},
	{"Random", (*config).quantRandom},
}

var quantRefused = []test{{"Refused", (*config).quantRefuse}}

// quantised is what the suite asks of the backend about quantised types.
func (c *config) quantised() []test {
	if c.plainTypes {
		return quantRefused
	}
	return append(quantSweeps[:len(quantSweeps):len(quantSweeps)], quantNumbers...)
}

var (
	quantTypes = []kv.DType{kv.F8E4M3, kv.F8E5M2, kv.I8, kv.I4}
	keyKinds   = []kv.ScaleKind{kv.NoScales, kv.TensorScale, kv.HeadScale, kv.TokenScale, kv.ChannelScale}
	valueKinds = keyKinds[:4]

	scalesOf = []func(byte, kv.DType, scaleOf, uint64) float32{plainScale, signedScale, emptyScale, tinyScale}
)

// quantSmall is a quantised case to change one thing of.
func quantSmall(t kv.DType, k, v kv.ScaleKind, lens ...int) quantCase {
	q := quantCase{Case: small(lens...), kKind: k, vKind: v}
	q.KType, q.VType = t, t
	return q
}

// quantTypes: every type with every kind of scales of keys and of values, in
// turn on pages and contiguous, in both layouts, with scales of all sorts.
func (c *config) quantTypes(t *testing.T, b backend.Backend) {
	i := 0
	for _, dtype := range quantTypes {
		for _, k := range keyKinds {
			for _, v := range valueKinds {
				q := quantSmall(dtype, k, v, 130, 0, 77)
				q.Queries = []int{1, 1, 3}
				q.VType = turn(quantTypes, i+i/4)
				q.PageSize, q.Layout, q.Pad = turn([]int{16, 0, 5, 1}, i), turn([]kv.Layout{kv.HND, kv.NHD}, i/3), i%3
				q.NumSplits, q.Options.Causal = turn([]int{1, 0, 3}, i), i%2 == 0
				for _, q.scale = range scalesOf {
					c.verifyQuant(t, b, q)
				}
				i++
			}
		}
	}
}

// quantMixed: keys of one kind of type, values of the other.
func (c *config) quantMixed(t *testing.T, b backend.Backend) {
	for i, dtype := range quantTypes {
		q := quantSmall(dtype, turn(keyKinds[1:], i), kv.NoScales, 100, 40)
		q.VType = turn(types, i)
		c.verifyQuant(t, b, q)
		q = quantSmall(dtype, kv.NoScales, turn(valueKinds[1:], i+2), 100, 40)
		q.KType = turn(types, i)
		c.verifyQuant(t, b, q)
	}
}

func (c *config) quantDims(t *testing.T, b backend.Backend) {
	for i, dim := range [][2]int{{1, 1}, {3, 5}, {33, 33}, {7, 64}, {64, 9}, {59, 111}, {128, 128}, {129, 257}} {
		for _, dtype := range quantTypes {
			q := quantSmall(dtype, turn(keyKinds[1:], i), turn(valueKinds[1:], i), 70, 33)
			q.Shape.KeyDim, q.Shape.ValueDim = dim[0], dim[1]
			q.Pad, q.scale = i%2, signedScale
			c.verifyQuant(t, b, q)
		}
	}
}

// quantSplits: scales count once in each path, whole or split, of any group.
func (c *config) quantSplits(t *testing.T, b backend.Backend) {
	for splits := range 9 {
		q := quantSmall(turn(quantTypes, splits), turn(keyKinds[1:], splits), turn(valueKinds[1:], splits+splits/3), 300, 65)
		q.Shape.NumHeads = q.Shape.NumKVHeads * (splits + 1)
		q.NumSplits, q.scale = splits, signedScale
		c.verifyQuant(t, b, q)
	}
}

// quantLong: more keys than are summed at a time, whose first values are tiny.
func (c *config) quantLong(t *testing.T, b backend.Backend) {
	for _, from := range []int{0, 20, 2500, 5000} {
		q := quantSmall(kv.I8, kv.TokenScale, kv.TokenScale, 5000)
		q.Shape.NumHeads, q.NumSplits = 2, 1
		q.scale = func(what byte, t kv.DType, of scaleOf, random uint64) float32 {
			if what == 'v' && of.pos < from {
				if of.pos%3 == 0 {
					return 0x1p-34
				}
				return subnormalScale(what, t, of, random)
			}
			return signedScale(what, t, of, random)
		}
		c.verifyQuant(t, b, q)
	}
}

// quantCaches: what a cache has made of its tokens, forks among them.
func (c *config) quantCaches(t *testing.T, b backend.Backend) {
	rng := rand.New(rand.NewPCG(1, 1))
	for i, dtype := range quantTypes {
		cs := small(50, 21)
		cs.KType, cs.VType, cs.PageSize = dtype, dtype, 7
		cs.Shape.KeyDim, cs.Layout = 33, turn([]kv.Layout{kv.HND, kv.NHD}, i)
		cache, err := kv.New(kv.Config{
			NumKVHeads: 2, KeyDim: 33, ValueDim: 32, PageSize: 7, NumPages: 20, Layout: cs.Layout, KeyType: dtype, ValueType: dtype,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer cache.Close()
		s := &Step{Case: &cs}
		s.fillQ()
		s.View = appended(t, cache, rng, cs.Lens)
		s.refs = stored(t, s)
		c.verifyStep(t, b, s)
	}
}

// appended gives a cache sequences of random tokens, the second a fork of the first.
func appended(t *testing.T, cache *kv.Cache, rng *rand.Rand, lens []int) kv.View {
	t.Helper()
	cfg := cache.Config()
	first := cache.NewSequence()
	add := func(seq *kv.Sequence, n int) {
		k, v := make([]float32, n*cfg.NumKVHeads*cfg.KeyDim), make([]float32, n*cfg.NumKVHeads*cfg.ValueDim)
		for _, x := range [...][]float32{k, v} {
			for i := range x {
				x[i] = float32(rng.NormFloat64())
			}
		}
		if err := seq.Append(k, v); err != nil {
			t.Fatal(err)
		}
	}
	add(first, lens[1]-1)
	second, err := first.Fork()
	if err != nil {
		t.Fatal(err)
	}
	add(first, lens[0]-lens[1]+1)
	add(second, 1)
	view, err := cache.View(first, second)
	if err != nil {
		t.Fatal(err)
	}
	return view
}

// stored is what the direct softmax says of what a view holds.
func stored(t *testing.T, s *Step) (refs []attn.Reference) {
	t.Helper()
	row := s.Case.Shape.NumHeads * s.Case.Shape.KeyDim
	for i := range s.View.Seqs {
		ref, err := attn.Direct(s.Case.Shape, &s.Case.Options, i, s.Q[i*row:][:row], s.View.Sequence(i))
		if err != nil {
			t.Fatal(err)
		}
		refs = append(refs, ref)
	}
	return refs
}

// quantContiguous: tensors in place, their scales with them.
func (c *config) quantContiguous(t *testing.T, b backend.Backend) {
	for i, k := range keyKinds {
		q := quantSmall(turn(quantTypes, i+3), k, turn(valueKinds, i), 60, 0, 41)
		q.Shape.KeyDim, q.Shape.ValueDim, q.PageSize = 33, 31, 0
		s := q.build()
		view, err := kv.Contiguous(
			kv.Tensor{Type: q.KType, Data: s.View.K.Data, Scales: s.View.K.Scales}, kv.Tensor{Type: q.VType, Data: s.View.V.Data, Scales: s.View.V.Scales},
			s.View.NumPages, 2, 60, 33, 31, nil)
		if err != nil {
			t.Fatal(err)
		}
		view.Seqs = s.View.Seqs
		s.View = view
		c.verifyStep(t, b, s)
	}
}

// quantCliff: the last row ends where the memory does.
func (c *config) quantCliff(t *testing.T, b backend.Backend) {
	if !c.sparse {
		t.Skip("the backend copies what a view spans")
	}
	for i, dim := range []int{1, 7, 33, 64, 129} {
		for _, dtype := range quantTypes {
			q := quantSmall(dtype, turn(keyKinds, i), turn(valueKinds, i), 48)
			q.Shape.KeyDim, q.Shape.ValueDim = dim, dim
			s := q.build()
			for _, p := range [...]*kv.Plane{&s.View.K, &s.View.V} {
				last := p.Offset(highest(s.View.Seqs[0].Pages[:3]), 1, 15) + p.RowBytes()
				p.Data = beforeCliff(t, p.Data[:last])
			}
			c.verifyStep(t, b, s)
		}
	}
}

// quantRandom: quantised keys or values in cases that nobody thought of.
func (c *config) quantRandom(t *testing.T, b backend.Backend) {
	rapid.Check(t, func(t *rapid.T) {
		q := quantCase{Case: drawCase(t)}
		q.Interleaved = false
		q.KType = rapid.SampledFrom(quantTypes).Draw(t, "quantised key type")
		q.kKind = rapid.SampledFrom(keyKinds).Draw(t, "key scales")
		if rapid.Bool().Draw(t, "quantised values") {
			q.VType = rapid.SampledFrom(quantTypes).Draw(t, "quantised value type")
			q.vKind = rapid.SampledFrom(valueKinds).Draw(t, "value scales")
		}
		q.scale = rapid.SampledFrom(scalesOf).Draw(t, "scales")
		s := q.build()
		r, err := decode(b, s)
		if err == nil {
			err = c.judge(s, r)
		}
		if err != nil {
			t.Fatalf("%+v: %v", q, err)
		}
	})
}

// quantRefuse: who does not take quantised types says so.
func (c *config) quantRefuse(t *testing.T, b backend.Backend) {
	for _, dtype := range quantTypes {
		keys := quantSmall(dtype, kv.TokenScale, kv.NoScales, 20)
		values := quantSmall(dtype, kv.NoScales, kv.TokenScale, 20)
		keys.VType, values.KType = kv.F16, kv.F16
		for _, q := range []quantCase{keys, values} {
			s := q.build()
			p, err := s.Plan(b.Info())
			if err != nil {
				t.Fatal(err)
			}
			l := s.Launch(p)
			l.Out = make([]float32, q.Shape.NumHeads*q.Shape.ValueDim)
			if err := b.Decode(context.Background(), l); !errors.Is(err, attn.ErrOption) {
				t.Errorf("%v: %v, want ErrOption", s.Case, err)
			}
		}
	}
}
