package backendtest

import (
	"math"
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/kv"
)

// exact is the direct softmax as a backend would return it.
func exact(t *testing.T, s *Step) Result {
	t.Helper()
	refs, err := s.references()
	if err != nil {
		t.Fatal(err)
	}
	var r Result
	for _, ref := range refs {
		for _, x := range ref.Out {
			r.Out = append(r.Out, float32(x))
		}
		for _, x := range ref.LSE {
			r.LSE = append(r.LSE, float32(x))
		}
	}
	return r
}

// TestJudge: what is right passes; a NaN, an infinity, a zero for "no key" or
// an error above the limit does not.
func TestJudge(t *testing.T) {
	c := &config{}
	s := small(40, 0).Build()
	right := exact(t, s)
	if err := c.judge(s, right); err != nil {
		t.Fatalf("the direct result is refused: %v", err)
	}
	heads, dim := s.Case.Shape.NumHeads, s.Case.Shape.ValueDim
	for name, spoil := range map[string]func(Result){
		"NaN in out":                   func(r Result) { r.Out[5] = nan() },
		"infinity in out":              func(r Result) { r.Out[5] = inf(1) },
		"NaN in an empty row":          func(r Result) { r.Out[heads*dim] = nan() },
		"NaN in lse":                   func(r Result) { r.LSE[1] = nan() },
		"0 for the lse of no key":      func(r Result) { r.LSE[heads] = 0 },
		"+Inf for the lse of no key":   func(r Result) { r.LSE[heads] = inf(1) },
		"lowest number for lse":        func(r Result) { r.LSE[heads] = -math.MaxFloat32 },
		"out off by 2e-5":              func(r Result) { r.Out[0] += 2e-5 },
		"lse off by 2e-5":              func(r Result) { r.LSE[0] += 2e-5 },
		"something in an empty row":    func(r Result) { r.Out[heads*dim+1] = 1e-30 },
		"two rows in each other's row": func(r Result) { r.Out[0], r.Out[dim] = r.Out[dim], r.Out[0] },
	} {
		r := exact(t, s)
		spoil(r)
		if c.judge(s, r) == nil {
			t.Errorf("%s passes", name)
		}
	}
	if c.judge(s, Result{append(right.Out, 0), right.LSE}) == nil {
		t.Error("an output that is too long passes")
	}
}

// TestGuard: a write just beside a buffer is seen.
func TestGuard(t *testing.T) {
	for _, at := range []int{guard - 1, guard + 10} {
		g := newGuarded(10)
		if err := g.check("out"); err != nil {
			t.Fatal(err)
		}
		g[at] = nan()
		if g.check("out") == nil {
			t.Errorf("a NaN at %d passes", at-guard)
		}
	}
}

// TestRoundedWeights: a backend that rounds weights may be off by a unit or so
// of its type, and not by ten.
func TestRoundedWeights(t *testing.T) {
	cs := small(200)
	cs.KType, cs.VType = kv.BF16, kv.BF16
	s, group := cs.Build(), cs.Shape.GroupSize()
	exact(t, s)
	const unit = 0x1p-8
	c := &config{info: backend.Info{RoundedGroup: group}}
	if more := c.limits(s, 0).OutAbsolute; more < unit/4 || more > 8*unit {
		t.Errorf("the limit is %v more, want about %v", more, unit)
	}
	for _, rounded := range []int{0, group + 1} {
		c.info.RoundedGroup = rounded
		if limits, want := c.limits(s, 0), attn.Float32Limits(s.Case.Shape.KeyDim); limits != want {
			t.Errorf("groups of %d from %d on: the limits are %+v, want %+v", group, rounded, limits, want)
		}
	}
	q := quantCase{Case: small(200), kKind: kv.TokenScale, vKind: kv.TokenScale}
	q.KType, q.VType = kv.F8E4M3, kv.F8E4M3
	s = q.build()
	if limits, want := c.limits(s, 0), attn.Float32Limits(s.Case.Shape.KeyDim); limits != want {
		t.Errorf("e4m3, of which no weights are rounded: the limits are %+v, want %+v", limits, want)
	}
	c.info.RoundedGroup8 = group
	if limits, want := c.limits(s, 0), attn.Float32Limits(s.Case.Shape.KeyDim).RoundedWeights(); limits != want {
		t.Errorf("e4m3: the limits are %+v, want %+v", limits, want)
	}
	s = small(200).Build()
	exact(t, s)
	c.info.RoundedGroup = group
	if limits, want := c.limits(s, 0), attn.Float32Limits(s.Case.Shape.KeyDim); limits != want {
		t.Errorf("f32: the limits are %+v, want %+v", limits, want)
	}
}

// TestEncode: the suite's own conversions keep what a type holds, and cut the rest.
func TestEncode(t *testing.T) {
	for _, x := range []float32{0, 1, -1, 0.5, 100, -65504, 1023. / 1024, 0x1p-14, inf(1), inf(-1)} {
		if got := fromHalf(toHalf(x)); got != x {
			t.Errorf("f16 makes %v of %v", got, x)
		}
	}
	for x, want := range map[float32]float32{1e6: inf(1), 0x1p-20: 0, 1.0004883: 1, 2.001: 2} {
		if got := fromHalf(toHalf(x)); got != want {
			t.Errorf("f16 makes %v of %v, want %v", got, x, want)
		}
	}
	row := []float32{nan(), 1.00390625}
	quantize(row, kv.BF16)
	if row[0] == row[0] || row[1] != 1 {
		t.Errorf("bf16 makes %v of NaN and 1 + 2⁻⁸, want NaN and 1", row)
	}
}

// TestPoison: what no key fills is NaN in its type, all of it.
func TestPoison(t *testing.T) {
	for _, dtype := range types {
		cs := small(5)
		cs.KType, cs.VType, cs.Pad = dtype, dtype, 1
		s := cs.Build()
		view := s.View
		row := make([]float32, cs.Shape.KeyDim+1)
		view.K.Dim++ // the padding counted
		nans := 0
		for page := range view.NumPages {
			for head := range view.NumKVHeads {
				for slot := range view.PageSize {
					view.K.Row(row, kv.PageID(page), head, slot)
					for _, x := range row {
						if x != x {
							nans++
						}
					}
				}
			}
		}
		all := view.NumPages * view.NumKVHeads * view.PageSize * len(row)
		if want := all - 5*view.NumKVHeads*cs.Shape.KeyDim; nans != want {
			t.Errorf("%v: %d of %d elements are NaN, want %d", dtype, nans, all, want)
		}
	}
}
