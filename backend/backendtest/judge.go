package backendtest

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/plan"
)

// lowPrecision is by how much a backend that rounds weights to the values' type
// before it multiplies them ([backend.Info.RoundsWeights]) may be further off than one
// that computes in float32: times the error of a plain attention in which every step is
// rounded to the type. Cases store numbers that their type holds exactly, so a
// backend that computes in float32 has no more to lose with a 16-bit type than
// with f32: [attn.Float32Limits] are its limits.
const lowPrecision = 2

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
	return decodeTraced(b, s, p, nil)
}

// decodeTraced computes a step with a trace, nil for none.
func decodeTraced(b backend.Backend, s *Step, p *plan.Plan, trace *backend.Trace) (Result, error) {
	l := s.Launch(p)
	l.Trace = trace
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
		d, err := refs[i].Compare(out[:n], lse[:m], c.limits(s, i))
		if err != nil {
			return err
		}
		if !d.Within() {
			return fmt.Errorf("sequence %d of %d keys: out is off by %.3g, %.3g of its limit; lse by %.3g, %.3g of its limit; %d NaN or infinities out of place",
				i, s.Case.Lens[i], d.Out, d.OutShare, d.LSE, d.LSEShare, d.NonFinite)
		}
		out, lse = out[n:], lse[m:]
	}
	if len(out) != 0 || len(lse) != 0 {
		return fmt.Errorf("%d elements of out and %d of lse belong to no sequence", len(out), len(lse))
	}
	return nil
}

// limits are those of sequence i.
func (c *config) limits(s *Step, i int) attn.Limits {
	l := attn.Float32Limits(s.Case.Shape.KeyDim)
	switch {
	case !c.info.RoundsWeights(s.Case.VType, s.Case.Shape.GroupSize()):
		return l
	case s.Case.VType.Quantised(): // its steps would be rounded to far fewer digits than weights are
		return l.RoundedWeights()
	}
	l.OutAbsolute += lowPrecision * lowPrecisionError(s, i)
	return l
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
