package kv_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/kv"
)

var (
	types      = []kv.DType{kv.F32, kv.F16, kv.BF16, kv.F8E4M3, kv.F8E5M2, kv.I8, kv.I4}
	quantised  = types[3:]
	keyKinds   = []kv.ScaleKind{kv.NoScales, kv.TensorScale, kv.HeadScale, kv.TokenScale, kv.ChannelScale}
	valueKinds = keyKinds[:4]

	nan, inf = float32(math.NaN()), float32(math.Inf(1))
)

// steps say how coarse a quantised type is: what is largest of its codes, and how
// far at most a code is from a number, as a share of the number and in scales.
var steps = map[kv.DType]struct{ largest, relative, absolute float32 }{
	kv.F8E4M3: {448, 0x1p-4, 0x1p-10},
	kv.F8E5M2: {57344, 0x1p-3, 0x1p-17},
	kv.I8:     {127, 0, 0.5},
	kv.I4:     {7, 0, 0.5},
}

// calibrated is scales of a kind under which stamps do not saturate. They
// differ; some are negative.
func calibrated(kind kv.ScaleKind, t kv.DType, heads, dim int) kv.Scales {
	n := map[kv.ScaleKind]int{kv.TensorScale: 1, kv.HeadScale: heads, kv.ChannelScale: heads * dim}[kind]
	s := kv.Scales{Kind: kind}
	for i := range n {
		s.Values = append(s.Values, (64+float32(i))*float32(1-i%3)/steps[t].largest)
		if i%3 == 1 {
			s.Values[i] = 100 / steps[t].largest
		}
	}
	return s
}

// near reports whether a row read from a plane is what was appended, within half
// a step; zeros are exact.
func near(got, want []float32, p *kv.Plane, head int) bool {
	step := steps[p.Type] // of types that are not quantised: 0
	top := slices.Max(want)
	top = max(top, -slices.Min(want))
	for d, x := range want {
		scale := top / step.largest
		if p.Scales.Kind != kv.TokenScale {
			scale = p.Scales.Shared(head, d, p.Dim)
		}
		limit := (step.relative+1e-6)*abs(x) + step.absolute*abs(scale)
		if x == 0 || !p.Type.Quantised() {
			limit = 0
		}
		if !(abs(got[d]-x) <= limit) {
			return false
		}
	}
	return true
}

func abs(x float32) float32 { return float32(math.Abs(float64(x))) }

// store appends one key with one head, and reads it back.
func store(t *testing.T, dtype kv.DType, scales kv.Scales, row []float32) ([]float32, error) {
	t.Helper()
	cache := open(t, kv.Config{
		NumKVHeads: 1, KeyDim: len(row), ValueDim: 1, PageSize: 4, NumPages: 1, KeyType: dtype, KeyScales: scales,
	})
	seq := cache.NewSequence()
	if err := seq.Append(row, []float32{0}); err != nil {
		return nil, err
	}
	view, err := cache.View(seq)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]float32, len(row))
	view.Sequence(0).Key(got, 0, 0)
	return got, nil
}

func sameFloats(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return x == y || x != x && y != y })
}

// TestStoredValues: what comes back of a row, exactly.
func TestStoredValues(t *testing.T) {
	tensor := func(x float32) kv.Scales { return kv.Scales{Kind: kv.TensorScale, Values: []float32{x}} }
	token := kv.Scales{}
	const tiny = math.SmallestNonzeroFloat32
	for name, x := range map[string]struct {
		t         kv.DType
		scales    kv.Scales
		row, want []float32
	}{
		"int8 to nearest, ties to even": {kv.I8, tensor(1), []float32{2.5, 3.5, -2.5, 0.4, 100.6}, []float32{2, 4, -2, 0, 101}},
		"int4 of odd dim":               {kv.I4, tensor(0.5), []float32{-4, 3.5, 1}, []float32{-4, 3.5, 1}},
		"int8 saturates":                {kv.I8, tensor(0.5), []float32{1e30, -1e30, 64}, []float32{63.5, -64, 63.5}},
		"int4 saturates":                {kv.I4, tensor(1), []float32{99, -99, 7.4}, []float32{7, -8, 7}},
		"e4m3 saturates":                {kv.F8E4M3, tensor(2), []float32{1e30, -1e30, 896}, []float32{896, -896, 896}},
		"e5m2 saturates":                {kv.F8E5M2, tensor(0.5), []float32{1e30, -1e30, 28672}, []float32{28672, -28672, 28672}},
		"a quotient that overflows":     {kv.F8E5M2, tensor(1e-30), []float32{1e30}, []float32{57344 * float32(1e-30)}},
		"e4m3 keeps NaN":                {kv.F8E4M3, tensor(2), []float32{nan, 4, inf, -inf}, []float32{nan, 4, nan, nan}},
		"e5m2 keeps NaN and infinity":   {kv.F8E5M2, tensor(-2), []float32{nan, 4, inf, -inf}, []float32{nan, 4, inf, -inf}},
		"zero scale":                    {kv.I8, tensor(0), []float32{0, 1, -1e30}, []float32{0, 0, 0}},
		"zero scale of floats":          {kv.F8E4M3, tensor(0), []float32{0, 5, nan}, []float32{0, 0, nan}},
		"negative scale":                {kv.I8, tensor(-2), []float32{6, -254, 256, 5}, []float32{6, -254, 256, 4}},
		"subnormal scale":               {kv.I8, tensor(3 * tiny), []float32{6 * tiny, 1, -9 * tiny}, []float32{6 * tiny, 381 * tiny, -9 * tiny}},
		"no default is TensorScale":     {kv.I8, kv.Scales{Kind: kv.TensorScale}, []float32{1.4, 7}, []float32{1, 7}},
		"a token's step":                {kv.I8, token, []float32{254, 3, -127, 0}, []float32{254, 4, -128, 0}},
		"a token of zeros":              {kv.I4, token, []float32{0, 0, 0}, []float32{0, 0, 0}},
		"a tiny token":                  {kv.I8, token, []float32{50 * tiny, -tiny, 0}, []float32{50 * tiny, -tiny, 0}},
		"a small token":                 {kv.I4, token, []float32{10 * tiny, 2 * tiny}, []float32{10 * tiny, 2 * tiny}},
		"a token with NaN":              {kv.I8, token, []float32{1, nan, 3}, []float32{nan, nan, nan}},
		"a token with infinity":         {kv.I4, token, []float32{1, -inf, 3}, []float32{nan, nan, nan}},
		"a float token with NaN":        {kv.F8E4M3, token, []float32{448, nan, 1}, []float32{448, nan, 1}},
		"a float token with infinity":   {kv.F8E5M2, token, []float32{57344, -inf, 1}, []float32{57344, -inf, 1}},
		"zeros and infinity":            {kv.F8E5M2, token, []float32{0, -inf, inf}, []float32{0, -inf, inf}},
	} {
		got, err := store(t, x.t, x.scales, x.row)
		if err != nil || !sameFloats(got, x.want) {
			t.Errorf("%s: %v is stored as %v (%v), want %v", name, x.row, got, err, x.want)
		}
	}
}

// TestZerosBesideNonFiniteHaveASmallScale: the scale of a row without a number is small, so that it is no reason to
// attention to give up what tiny values in other rows want; and it is not zero, which would make NaN of infinity.
func TestZerosBesideNonFiniteHaveASmallScale(t *testing.T) {
	for _, dtype := range []kv.DType{kv.F8E4M3, kv.F8E5M2} {
		for _, row := range [][]float32{{0, nan, 0}, {0, inf, 0}, {-inf, inf, nan}} {
			cache := open(t, kv.Config{NumKVHeads: 1, KeyDim: 3, ValueDim: 3, PageSize: 1, NumPages: 1, KeyType: dtype, ValueType: dtype})
			seq := cache.NewSequence()
			if err := seq.Append(row, row); err != nil {
				t.Fatal(err)
			}
			view, err := cache.View(seq)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range []*kv.Plane{&view.K, &view.V} {
				if scale := p.Scales.Values[p.Scales.Offset(view.Seqs[0].Pages[0], 0, 0)]; !(scale > 0 && scale < 0x1p-32) {
					t.Errorf("%v as %v: scale %v, want a small one above 0", row, dtype, scale)
				}
			}
		}
	}
}

// TestChannelScales: each channel of each head has its own.
func TestChannelScales(t *testing.T) {
	cache := open(t, kv.Config{
		NumKVHeads: 2, KeyDim: 2, ValueDim: 1, PageSize: 1, NumPages: 1, KeyType: kv.I8,
		KeyScales: kv.Scales{Kind: kv.ChannelScale, Values: []float32{1, 2, 4, -8}},
	})
	seq := cache.NewSequence()
	if err := seq.Append([]float32{300, 300, 300, 300}, make([]float32, 2)); err != nil {
		t.Fatal(err)
	}
	view, err := cache.View(seq)
	if err != nil {
		t.Fatal(err)
	}
	var got [4]float32
	view.Sequence(0).Key(got[:2], 0, 0)
	view.Sequence(0).Key(got[2:], 1, 0)
	if want := [4]float32{127, 254, 300, 304}; got != want {
		t.Errorf("300 is stored as %v, want %v", got, want)
	}
}

// TestRepresentableRoundTrip: every code times a power of two comes back as it was.
func TestRepresentableRoundTrip(t *testing.T) {
	for _, dtype := range quantised {
		for _, scale := range []float32{1, -0.25, 0x1p100, 0x1p-100, 0x1p-130} {
			top := steps[dtype].largest
			row := []float32{top * scale}
			for x := top; x >= 1; x /= 2 { // of powers of two, every type has some
				row = append(row, float32(math.Exp2(math.Floor(math.Log2(float64(x)))))*scale, 0)
			}
			for _, kind := range []kv.Scales{{Kind: kv.TensorScale, Values: []float32{scale}}, {}} {
				got, err := store(t, dtype, kind, row)
				if err != nil || !slices.Equal(got, row) {
					t.Errorf("%v with scales of kind %v: %v is stored as %v (%v)", dtype, kind.Kind, row, got, err)
				}
			}
		}
	}
}

// TestUnstorableIsRefused: an integer has no code for NaN, nor infinity, and a
// scale that others share cannot say so. Nothing is appended.
func TestUnstorableIsRefused(t *testing.T) {
	for _, dtype := range []kv.DType{kv.I8, kv.I4} {
		for _, x := range []float32{nan, -inf} {
			cfg := small
			cfg.ValueType, cfg.ValueScales.Kind = dtype, kv.TensorScale
			cache := open(t, cfg)
			seq := cache.NewSequence()
			appendStamps(t, cfg, seq, 1, 2, 3)
			before := cache.Stats()
			err := seq.Append(make([]float32, 8), []float32{1, 1, 1, 1, 1, 1, 1, x})
			if !errors.Is(err, kv.ErrNotFinite) || !strings.Contains(err.Error(), "values: not finite: element 1 of head 0") {
				t.Errorf("%v of %v: %v, want ErrNotFinite", x, dtype, err)
			}
			if seq.Len() != 3 || cache.Stats() != before {
				t.Errorf("after it: %d tokens, %+v, want 3, %+v", seq.Len(), cache.Stats(), before)
			}
		}
	}
}

// TestForksCopyScales: a copied page has the scales of the page that it was.
func TestForksCopyScales(t *testing.T) {
	for _, layout := range []kv.Layout{kv.HND, kv.NHD} {
		cfg := kv.Config{NumKVHeads: 3, KeyDim: 3, ValueDim: 5, PageSize: 4, NumPages: 4, Layout: layout, KeyType: kv.I8, ValueType: kv.I4}
		cache := open(t, cfg)
		seq := cache.NewSequence()
		appendStamps(t, cfg, seq, 1, 40, 2)
		fork, err := seq.Fork()
		if err != nil {
			t.Fatal(err)
		}
		appendStamps(t, cfg, fork, 50)
		appendStamps(t, cfg, seq, 3)
		holds(t, cache, fork, 1, 40, 2, 50)
		holds(t, cache, seq, 1, 40, 2, 3)
	}
}

func TestParseDType(t *testing.T) {
	for _, dtype := range types {
		if got, err := kv.ParseDType(dtype.String()); got != dtype || err != nil {
			t.Errorf("%v is parsed as %v (%v)", dtype, got, err)
		}
	}
	if _, err := kv.ParseDType("f8"); !errors.Is(err, attn.ErrOption) || !strings.Contains(err.Error(), `"f8" is not known, want one of f32, f16, bf16, e4m3, e5m2, int8, int4`) {
		t.Errorf("f8: %v", err)
	}
}

func TestQuantisedSizes(t *testing.T) {
	cfg := kv.Config{NumKVHeads: 2, KeyDim: 33, ValueDim: 33, PageSize: 3, NumPages: 2, KeyType: kv.I4, ValueType: kv.F8E4M3}
	if got, want := cfg.PageBytes(), 2*3*(17+4+33+4); got != want {
		t.Errorf("a page has %d bytes, want %d", got, want)
	}
	cfg.KeyScales.Kind = kv.TensorScale
	if got, want := cfg.PageBytes(), 2*3*(17+33+4); got != want {
		t.Errorf("with a shared scale of keys, a page has %d bytes, want %d", got, want)
	}
	view, err := open(t, cfg).View()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(view.K.Data), 2*2*3*17; got != want {
		t.Errorf("the keys have %d bytes, want %d", got, want)
	}
}
