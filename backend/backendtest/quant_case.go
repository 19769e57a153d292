package backendtest

import (
	"fmt"
	"slices"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/kv"
)

// quantCase is a case whose keys or values are quantised.
type quantCase struct {
	Case
	kKind, vKind kv.ScaleKind

	// number, where set, changes what the seed filled dst with: codes, as numbers.
	number func(what byte, dst []float32, seq, head, pos int)
	// scale, where set, makes the scale that seed would make of x, which is what it
	// is of: the key's ('k') or value's type, and all that its kind tells apart.
	scale func(what byte, t kv.DType, x scaleOf, random uint64) float32
}

// scaleOf is what a scale is of; what its kind does not tell apart is 0.
type scaleOf struct{ seq, head, pos, channel int }

func (c *quantCase) String() string {
	return fmt.Sprintf("%v,scales=%v/%v", &c.Case, c.kKind, c.vKind)
}

// side is the keys or the values of a case.
type side struct {
	*quantCase
	what  byte
	t     kv.DType
	kind  kv.ScaleKind
	dim   int
	codes codes
}

func (c *quantCase) sides() (k, v side) {
	k = side{quantCase: c, what: 'k', t: c.KType, kind: c.kKind, dim: c.Shape.KeyDim}
	v = side{quantCase: c, what: 'v', t: c.VType, kind: c.vKind, dim: c.Shape.ValueDim}
	for _, x := range [...]*side{&k, &v} {
		if x.t.Quantised() {
			x.codes = codesOf(x.t)
		}
		if x.kind == kv.NoScales { // larger ones would make scores that a float32 is too coarse for
			x.codes.finite = slices.DeleteFunc(x.codes.finite, func(y float32) bool { return y > 2 || y < -2 })
		}
	}
	return k, v
}

// numbers fills dst with a row's elements, before scales.
func (s *side) numbers(dst []float32, seq, head, pos int) {
	if s.t.Quantised() {
		random := s.random(s.what, s.id(seq), head, pos)
		for i := range dst {
			random += 0x9e3779b97f4a7c15
			dst[i] = s.codes.finite[mix(random)%uint64(len(s.codes.finite))]
		}
	} else {
		s.fill(dst, s.t, s.what, seq, head, pos)
	}
	if s.number != nil {
		s.number(s.what, dst, seq, head, pos)
	}
}

// random is a number that belongs to something of the case.
func (c *quantCase) random(what byte, of ...int) uint64 {
	state := mix(c.Seed ^ uint64(what)<<32)
	for _, x := range of {
		state = mix(state ^ uint64(x))
	}
	return state
}

// scaleAt is the scale of an element.
func (s *side) scaleAt(seq, head, pos, channel int) float32 {
	var of scaleOf
	switch s.kind {
	case kv.NoScales:
		return 1
	case kv.HeadScale:
		of.head = head
	case kv.ChannelScale:
		of.head, of.channel = head, channel
	case kv.TokenScale:
		of.seq, of.head, of.pos = s.id(seq), head, pos
	}
	random := s.random(s.what+1, of.seq, of.head, of.pos, of.channel)
	if s.scale != nil {
		return s.scale(s.what, s.t, of, random)
	}
	return plainScale(s.what, s.t, of, random)
}

// row fills dst with a row's values: elements times scales.
func (s *side) row(dst []float32, seq, head, pos int) {
	s.numbers(dst, seq, head, pos)
	for i := range dst {
		x := s.scaleAt(seq, head, pos, i)
		dst[i] *= x + (x - x) // an infinite scale counts as NaN
	}
}

// quantSequence is one sequence as [attn.Direct] reads it, past all memory.
type quantSequence struct {
	k, v *side
	seq  int
}

func (q quantSequence) Len() int                           { return q.k.Lens[q.seq] }
func (q quantSequence) Key(dst []float32, head, pos int)   { q.k.row(dst, q.seq, head, pos) }
func (q quantSequence) Value(dst []float32, head, pos int) { q.v.row(dst, q.seq, head, pos) }

// plainScale is a scale that takes numbers to about [−1, 1].
func plainScale(_ byte, t kv.DType, _ scaleOf, random uint64) float32 {
	return (0.5 + share(random)) / largest(t)
}

// signedScale is sometimes negative.
func signedScale(what byte, t kv.DType, of scaleOf, random uint64) float32 {
	return plainScale(what, t, of, random) * float32(1-2*int(random&1))
}

// emptyScale is sometimes zero, of either sign.
func emptyScale(what byte, t kv.DType, of scaleOf, random uint64) float32 {
	x := signedScale(what, t, of, random)
	if random&6 == 0 {
		x *= 0
	}
	return x
}

// tinyScale is sometimes a subnormal.
func tinyScale(what byte, t kv.DType, of scaleOf, random uint64) float32 {
	if random&6 == 0 {
		return subnormalScale(what, t, of, random)
	}
	return signedScale(what, t, of, random)
}

// subnormalScale has some 14 significant bits.
func subnormalScale(_ byte, _ kv.DType, _ scaleOf, random uint64) float32 {
	return (1 + share(random)) * 2e-41 * float32(1-2*int(random&1))
}

// share is a number over [0, 1) of the upper bits of x.
func share(x uint64) float32 { return float32(x>>40) / (1 << 24) }

// refer lets the direct softmax say what is right, from the seed.
func (c *quantCase) refer(s *Step) {
	k, v := c.sides()
	rest := s.Q
	s.refs = []attn.Reference{}
	for i := range c.Lens {
		seq := quantSequence{&k, &v, i}
		n := c.numQueries(i) * c.Shape.NumHeads * c.Shape.KeyDim
		ref, err := attn.Direct(c.Shape, &c.Options, i, rest[:n], seq)
		if err != nil {
			panic("backendtest: " + err.Error())
		}
		rest = rest[n:]
		s.refs = append(s.refs, ref)
	}
}
