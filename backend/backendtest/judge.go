package backendtest

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/plan"
)

// tolerance is how far an output may be from the float64 direct softmax,
// relative to the largest |v|. (Of quantised types, v is what is stored.) A log-sum-exp has [attn.LSELimit] and
// [attn.LSERelative] whatever the type.
type tolerance struct {
	absolute float64
	// lowPrecision multiplies the error that a plain attention makes in which
	// every step is rounded to the element type.
	lowPrecision float64
}

// tolerances is the one table of them. Cases store numbers that their type holds
// exactly, so a backend that computes in float32 has no more to lose with a
// 16-bit type than with f32.
var tolerances = map[kv.DType]tolerance{
	kv.F32:  {attn.OutLimit, 0},
	kv.F16:  {attn.OutLimit, 0},
	kv.BF16: {attn.OutLimit, 0},

	kv.F8E4M3: {attn.OutLimit, 0},
	kv.F8E5M2: {attn.OutLimit, 0},
	kv.I8:     {attn.OutLimit, 0},
	kv.I4:     {attn.OutLimit, 0},
}

// roundedTolerances is the table of backends that round weights to the values'
// type before they multiply them (tensor cores do): such a backend may be twice as
// far off as a plain low-precision attention.
var roundedTolerances = map[kv.DType]tolerance{
	kv.F32:  {attn.OutLimit, 0},
	kv.F16:  {attn.OutLimit, 2},
	kv.BF16: {attn.OutLimit, 2},
}

// guard is how many elements around a result must stay untouched.
const guard = 64

// guardBits is a NaN that no computation yields.
const guardBits = 0x7fedcba9

// guarded is a buffer of results, NaN at first, between guards.
type guarded []float32

func newGuarded(n int) guarded {
	g := make(guarded, n+2*guard)
	for i := range g {
		g[i] = math.Float32frombits(guardBits)
	}
	for i := range g.inner() {
		g[guard+i] = float32(math.NaN())
	}
	return g
}

func (g guarded) inner() []float32 { return g[guard : len(g)-guard : len(g)-guard] }

// check reports a guard that was written to.
func (g guarded) check(name string) error {
	for i, x := range g {
		if (i < guard || i >= len(g)-guard) && math.Float32bits(x) != guardBits {
			return fmt.Errorf("%s: element %d of %d is written, outside the buffer", name, i-guard, len(g)-2*guard)
		}
	}
	return nil
}

// Result is what a backend made of a step.
type Result struct {
	Out, LSE []float32
}

// decode computes a step into guarded buffers.
func decode(b backend.Backend, s *Step) (Result, error) {
	p, err := s.Plan(b.Info())
	if err != nil {
		return Result{}, err
	}
	return decodePlan(b, s, p)
}

func decodePlan(b backend.Backend, s *Step, p *plan.Plan) (Result, error) {
	l := s.Launch(p)
	rows := l.NumQueries() * s.Case.Shape.NumHeads
	out, lse := newGuarded(rows*s.Case.Shape.ValueDim), newGuarded(rows)
	l.Out, l.LSE = out.inner(), lse.inner()
	if err := l.Validate(); err != nil {
		return Result{}, err
	}
	if err := b.Decode(context.Background(), l); err != nil {
		return Result{}, err
	}
	if err := out.check("out"); err != nil {
		return Result{}, err
	}
	return Result{l.Out, l.LSE}, lse.check("lse")
}

// judge compares a result with the direct softmax, sequence by sequence.
func (c *config) judge(s *Step, r Result) error {
	refs, err := s.references()
	if err != nil {
		return err
	}
	out, lse := r.Out, r.LSE
	for i := range refs {
		n, m := len(refs[i].Out), len(refs[i].LSE)
		d, err := refs[i].Compare(out[:n], lse[:m])
		if err != nil {
			return err
		}
		if limit := c.limit(s, i); !d.Within(limit) {
			return fmt.Errorf("sequence %d of %d keys: out is off by %.3g, want at most %.3g; lse by %.3g, %.3g of its limit; %d NaN or infinities out of place",
				i, s.Case.Lens[i], d.Out, limit, d.LSE, d.LSEShare, d.NonFinite)
		}
		out, lse = out[n:], lse[m:]
	}
	if len(out) != 0 || len(lse) != 0 {
		return fmt.Errorf("%d elements of out and %d of lse belong to no sequence", len(out), len(lse))
	}
	return nil
}

// limit is the largest error that sequence i may have.
func (c *config) limit(s *Step, i int) float64 {
	table := tolerances
	if c.roundsWeights {
		table = roundedTolerances
	}
	t := table[s.Case.VType]
	limit := t.absolute*s.maxV[i] + math.SmallestNonzeroFloat32 // nearer no float32 may be
	if t.lowPrecision > 0 {
		limit += t.lowPrecision * lowPrecisionError(s, i)
	}
	return limit
}

// verify builds a case, computes it and judges it.
func (c *config) verify(t testing.TB, b backend.Backend, cs Case) Result {
	t.Helper()
	return c.verifyStep(t, b, cs.Build())
}

func (c *config) verifyStep(t testing.TB, b backend.Backend, s *Step) Result {
	t.Helper()
	r, err := decode(b, s)
	if err == nil {
		err = c.judge(s, r)
	}
	if err != nil {
		t.Errorf("%v: %v", s.Case, err)
	}
	return r
}

// sameBits reports the first bit that differs.
func sameBits(a, b Result) error {
	for _, x := range [...]struct {
		name string
		a, b []float32
	}{{"out", a.Out, b.Out}, {"lse", a.LSE, b.LSE}} {
		if len(x.a) != len(x.b) {
			return fmt.Errorf("%s has %d elements and %d", x.name, len(x.a), len(x.b))
		}
		for i := range x.a {
			if math.Float32bits(x.a[i]) != math.Float32bits(x.b[i]) {
				return fmt.Errorf("%s[%d] is %v and %v", x.name, i, x.a[i], x.b[i])
			}
		}
	}
	return nil
}
