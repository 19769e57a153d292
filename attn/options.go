package attn

import (
	"fmt"
	"math"
)

// Options are the rules that turn q·k into a score and say which keys a query
// sees. Their order is fixed: scale, softcap, bias (ALiBi), visibility.
// The zero value is plain attention: scale 1/√KeyDim, every key visible.
//
// Query i of a sequence's n new queries stands at position len − n + i, so the
// newest query stands at the newest key (bottom-right alignment). A query whose
// position is negative stands before the first key.
type Options struct {
	// Scale multiplies q·k. Zero means 1/√KeyDim.
	Scale float64
	// Softcap c replaces a scaled score s by c·tanh(s/c) (Gemma 2, arXiv 2408.00118). Zero
	// means none.
	Softcap float64
	// Slopes adds Slopes[h]·(key position − query position) to head h's scores
	// (ALiBi, arXiv 2108.12409). Nil means none.
	Slopes []float32 // [NumHeads]
	// Causal hides the keys after the query's position.
	Causal bool
	// Window is how many of the newest keys a query sees, that at its own
	// position counted: keys at query position − Window and before are hidden.
	// Zero means all.
	Window int
	// Mask hides single keys. Nil hides none.
	Mask *Mask
	// Sinks[h] is a learned logit of head h: one more exp(sink) in the softmax's
	// denominator, with no value, in the unit of scores (natural). −Inf adds nothing. Nil
	// means none.
	Sinks []float32 // [NumHeads]
}

// Mask says which keys a query sees, in addition to causality and the window.
// Row i is the i-th of a sequence's new queries, column j the key at position j.
// Sequences with fewer queries than others take part when queries in front fill them
// up, whose outputs are not read (docs/embedding.md, Speculation).
type Mask struct {
	Seqs    int     // 1: all sequences share the mask; else one a sequence
	Queries int     // every sequence of the step must have this many queries
	Keys    int     // at least the longest sequence; with Newest, at most the shortest
	Visible []uint8 // [Seqs, Queries, Keys], 0 hides
	// Newest lays the columns over the newest Keys keys of each sequence, whatever
	// its length, and leaves the older ones visible: the form of a tree of
	// speculated tokens. See [TreeMask].
	Newest bool
}

// maxTree is how many nodes a tree of speculated tokens may have: its mask has as
// many rows and columns.
const maxTree = 1 << 15

// TreeMask is the mask of a tree of speculated tokens: node i sees itself, its
// ancestors, and everything older than the tree. parents[i] is the parent of
// node i, smaller than i, or −1 for a root. It wraps [ErrOption].
func TreeMask(parents []int) (*Mask, error) {
	n := len(parents)
	if n > maxTree {
		return nil, fmt.Errorf("%w: a tree of %d nodes, want at most %d", ErrOption, n, maxTree)
	}
	m := &Mask{Seqs: 1, Queries: n, Keys: n, Visible: make([]uint8, n*n), Newest: true}
	for i, p := range parents {
		if p < -1 || p >= i {
			if i == 0 {
				return nil, fmt.Errorf("%w: tree node 0 has parent %d, want -1: the first node is a root", ErrOption, p)
			}
			return nil, fmt.Errorf("%w: tree node %d has parent %d, want an earlier node, 0 to %d, or -1 for a root", ErrOption, i, p, i-1)
		}
		if p >= 0 {
			copy(m.Visible[i*n:i*n+i], m.Visible[p*n:p*n+i])
		}
		m.Visible[i*n+i] = 1
	}
	return m, nil
}

// Row returns the mask of one query over the keys [lo, hi) of a sequence of the
// given length: element j − lo is 0 where key j is hidden. For a [Mask.Newest]
// mask, keys older than its columns have no element: Row returns the first key
// that has one. Where the mask has no such row or key, it hides nothing.
func (m *Mask) Row(seq, query, length, lo, hi int) (first int, visible []uint8) {
	if m.Seqs == 1 {
		seq = 0
	}
	origin := 0
	if m.Newest {
		origin = length - m.Keys
	}
	first = max(lo, origin)
	at := (seq*m.Queries+query)*m.Keys - origin
	if lo < 0 || first >= hi || hi-origin > m.Keys || min(seq, query) < 0 || query >= m.Queries ||
		at+first < 0 || at+hi < at+first || at+hi > len(m.Visible) {
		return hi, nil
	}
	return first, m.Visible[at+first : at+hi]
}

// Span is the range [lo, hi) of keys that causality and the window leave to
// query i of n in a sequence of the given length. It may be empty (lo = hi).
func (o *Options) Span(length, n, i int) (lo, hi int) {
	pos := length - n + i
	hi = length
	if o.Causal {
		hi = max(min(length, pos+1), 0)
	}
	if o.Window > 0 && o.Window <= pos {
		lo = min(pos-o.Window+1, hi)
	}
	return lo, hi
}

// Sees reports whether query i of n sees key j of a sequence of the given length.
func (o *Options) Sees(seq, length, n, i, j int) bool {
	lo, hi := o.Span(length, n, i)
	if j < lo || j >= hi {
		return false
	}
	if o.Mask == nil {
		return true
	}
	first, visible := o.Mask.Row(seq, i, length, j, j+1)
	return first > j || visible[0] != 0
}

// ScaleFor is the scale in force for keys of dim elements.
func (o *Options) ScaleFor(dim int) float64 {
	if o.Scale == 0 {
		return 1 / math.Sqrt(float64(dim))
	}
	return o.Scale
}

// Score is the score of a visible key: scale, then softcap, then bias. distance
// is key position − query position. A head without a slope has no bias.
func (o *Options) Score(qk, scale float64, head, distance int) float64 {
	s := qk * scale
	if o.Softcap > 0 {
		s = o.Softcap * math.Tanh(s/o.Softcap)
	}
	if head >= 0 && head < len(o.Slopes) {
		s += float64(o.Slopes[head]) * float64(distance)
	}
	return s
}

// Validate reports the first rule that has no meaning for the shape. It wraps
// [ErrOption] or [ErrShape].
func (o *Options) Validate(shape Shape) error {
	if o == nil {
		return fmt.Errorf("%w: the options are nil", ErrOption)
	}
	if !(math.Abs(o.Scale) <= math.MaxFloat32) { // NaN is not
		return fmt.Errorf("%w: scale is %v, want a finite number that float32 can hold", ErrOption, o.Scale)
	}
	if math.IsNaN(o.Softcap) || math.IsInf(o.Softcap, 0) || o.Softcap < 0 {
		return fmt.Errorf("%w: softcap is %v, want a finite number above 0, or 0 for none", ErrOption, o.Softcap)
	}
	if o.Window < 0 {
		return fmt.Errorf("%w: window is %d, want at least 1, or 0 for none", ErrOption, o.Window)
	}
	if o.Slopes != nil && len(o.Slopes) != shape.NumHeads {
		return fmt.Errorf("%w: %d ALiBi slopes, want %d, one a query head", ErrShape, len(o.Slopes), shape.NumHeads)
	}
	for h, slope := range o.Slopes {
		if f := float64(slope); math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Errorf("%w: the ALiBi slope of head %d is %v, want a finite number", ErrOption, h, slope)
		}
	}
	if o.Sinks != nil && len(o.Sinks) != shape.NumHeads {
		return fmt.Errorf("%w: %d sinks, want %d, one a query head", ErrShape, len(o.Sinks), shape.NumHeads)
	}
	if o.Mask != nil {
		return o.Mask.validate()
	}
	return nil
}

func (m *Mask) validate() error {
	if m.Seqs < 1 || m.Queries < 0 || m.Keys < 0 {
		return fmt.Errorf("%w: mask of %d sequences × %d queries × %d keys", ErrShape, m.Seqs, m.Queries, m.Keys)
	}
	want, ok := product(m.Seqs, m.Queries, m.Keys)
	if !ok || len(m.Visible) != want {
		return fmt.Errorf("%w: mask has %d elements, want %d × %d × %d", ErrShape, len(m.Visible), m.Seqs, m.Queries, m.Keys)
	}
	return nil
}

// Fits reports whether the mask covers a step of the given sequences. It wraps
// [ErrShape].
func (m *Mask) Fits(lens, numQueries []int) error {
	if m == nil {
		return fmt.Errorf("%w: the mask is nil", ErrShape)
	}
	if len(lens) != len(numQueries) {
		return fmt.Errorf("%w: %d lengths and %d query counts, want one of each a sequence", ErrShape, len(lens), len(numQueries))
	}
	if m.Seqs != 1 && m.Seqs != len(lens) {
		return fmt.Errorf("%w: mask for %d sequences, want 1 or %d", ErrShape, m.Seqs, len(lens))
	}
	for i, n := range lens {
		if err := m.fits(i, n, numQueries[i]); err != nil {
			return err
		}
	}
	return nil
}

func (m *Mask) fits(seq, length, queries int) error {
	switch {
	case seq < 0 || m.Seqs != 1 && seq >= m.Seqs:
		return fmt.Errorf("%w: mask for %d sequences, but it is to hide keys of sequence %d", ErrShape, m.Seqs, seq)
	case queries != m.Queries:
		return fmt.Errorf("%w: mask of %d queries, but sequence %d has %d", ErrShape, m.Queries, seq, queries)
	case m.Newest && m.Keys > length, !m.Newest && m.Keys < length:
		return fmt.Errorf("%w: mask of %d keys, but sequence %d has %d", ErrShape, m.Keys, seq, length)
	}
	return nil
}

// product multiplies non-negative factors and reports whether the result fits.
func product(factors ...int) (int, bool) {
	p := 1
	for _, f := range factors {
		if f < 0 || f != 0 && p > math.MaxInt/f {
			return 0, false
		}
		p *= f
	}
	return p, true
}
