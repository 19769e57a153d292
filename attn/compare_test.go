package attn_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/flashdec/flashdec/attn"
)

var limits = attn.Float32Limits(64)

// TestCompareCatchesNonFinite is the fault of validators that let NaN pass
// because |x − NaN| > limit is false.
func TestCompareCatchesNonFinite(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, tc := range []struct {
		got, want float64
		ok        bool
	}{
		{1, 1, true},
		{1, 1.1, false},
		{nan, 1, false},
		{1, nan, false},
		{nan, nan, true},
		{inf, inf, true},
		{inf, -inf, false},
		{inf, nan, false},
		{-inf, 0, false},
	} {
		asOut := attn.Reference{Out: []float64{tc.want}, LSE: []float64{0}, AbsScore: []float64{0}, AbsValue: []float64{1}}
		d, err := asOut.Compare([]float32{float32(tc.got)}, []float32{0}, limits)
		if err != nil || d.Within() != tc.ok {
			t.Errorf("out %v against %v: %+v, %v, want within: %v", tc.got, tc.want, d, err, tc.ok)
		}
		asLSE := attn.Reference{Out: []float64{0}, LSE: []float64{tc.want}, AbsScore: []float64{0}, AbsValue: []float64{1}}
		d, err = asLSE.Compare([]float32{0}, []float32{float32(tc.got)}, limits)
		if err != nil || d.Within() != tc.ok {
			t.Errorf("lse %v against %v: %+v, %v, want within: %v", tc.got, tc.want, d, err, tc.ok)
		}
	}
}

func TestCompareRefusesLengths(t *testing.T) {
	ref := attn.Reference{Out: make([]float64, 4), LSE: make([]float64, 2), AbsScore: make([]float64, 2), AbsValue: make([]float64, 2)}
	short := ref
	short.AbsValue = nil
	odd := ref
	odd.Out = make([]float64, 3)
	for name, tc := range map[string]struct {
		ref      attn.Reference
		out, lse int
	}{
		"short out":         {ref, 3, 2},
		"short lse":         {ref, 4, 1},
		"no absolute value": {short, 4, 2},
		"half a row":        {odd, 3, 2},
		"no rows":           {attn.Reference{Out: make([]float64, 4)}, 4, 0},
	} {
		if _, err := tc.ref.Compare(make([]float32, tc.out), make([]float32, tc.lse), limits); !errors.Is(err, attn.ErrShape) {
			t.Errorf("%s: %v, want ErrShape", name, err)
		}
	}
	if d, err := ref.Compare(nil, nil, limits); err != nil || !d.Within() {
		t.Errorf("nothing to look at: %+v, %v", d, err)
	}
}

func TestStatesMergeThenOutput(t *testing.T) {
	parts := []*attn.States{{ValueDim: 1}, {ValueDim: 1}}
	for i, p := range parts {
		*p = attn.MakeStates(2, 1)
		p.Set(0, attn.State[float32]{M: 0, L: 1, O: []float32{float32(2 + 4*i)}})
	}
	if err := parts[0].Merge(parts...); err != nil {
		t.Fatal(err)
	}
	out, lse := make([]float32, 2), make([]float32, 2)
	if err := parts[0].Output(out, lse, 2, []float32{float32(math.Log(2)), float32(math.Inf(-1))}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(out, []float32{2, 0}) || math.Abs(float64(lse[0])-math.Log(4)) > 1e-7 || !math.IsInf(float64(lse[1]), -1) {
		t.Errorf("out %v, lse %v, want [2 0] and [ln 4, -Inf]", out, lse)
	}
	other := attn.MakeStates(3, 1)
	if err := parts[0].Merge(&other); !errors.Is(err, attn.ErrShape) {
		t.Errorf("states of other rows: %v, want ErrShape", err)
	}
	if err := parts[0].Output(out[:1], nil, 2, nil); !errors.Is(err, attn.ErrShape) {
		t.Errorf("a short out: %v, want ErrShape", err)
	}
}
