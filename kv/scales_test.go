package kv_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/kv"
)

// scaledView views int4 keys and int8 values, as pages of 2 slots × 2 heads ×
// dim 3, with the given scales.
func scaledView(k, v kv.Scales) kv.View {
	return kv.View{
		K:          kv.Plane{Type: kv.I4, Dim: 3, Data: make([]byte, 16), PageStride: 16, HeadStride: 8, SlotStride: 4, Scales: k},
		V:          kv.Plane{Type: kv.I8, Dim: 3, Data: make([]byte, 24), PageStride: 12, HeadStride: 6, SlotStride: 3, Scales: v},
		NumKVHeads: 2, PageSize: 2, NumPages: 2, Seqs: []kv.Table{{Pages: []kv.PageID{1, 0}, Len: 4}},
	}
}

func TestValidateScales(t *testing.T) {
	of := func(kind kv.ScaleKind, n int) kv.Scales { return kv.Scales{Kind: kind, Values: make([]float32, n)} }
	tokens := func(n, page, head, slot int) kv.Scales {
		return kv.Scales{Kind: kv.TokenScale, Values: make([]float32, n), PageStride: page, HeadStride: head, SlotStride: slot}
	}
	for name, x := range map[string]struct {
		k, v kv.Scales
		says string
	}{
		"none":             {},
		"tensor and head":  {of(kv.TensorScale, 1), of(kv.HeadScale, 2), ""},
		"channel":          {of(kv.ChannelScale, 6), kv.Scales{}, ""},
		"token":            {tokens(8, 4, 2, 1), tokens(8, 4, 1, 2), ""},
		"shared by heads":  {tokens(4, 2, 0, 1), kv.Scales{}, ""},
		"too few tokens":   {tokens(7, 4, 2, 1), kv.Scales{}, "K has 7 scales with strides 4, 2, 1 (page, head, slot), too few for page 1"},
		"no tokens":        {kv.Scales{}, tokens(0, 0, 0, 0), "V has 0 scales"},
		"stride below 0":   {kv.Scales{}, tokens(8, 4, 2, -1), "V has 8 scales with strides 4, 2, -1"},
		"stride overflows": {tokens(8, math.MaxInt, 2, 2), kv.Scales{}, "K has 8 scales"},
		"too few heads":    {of(kv.HeadScale, 1), kv.Scales{}, "K has 1 scales, want 2 of kind head"},
		"too many":         {kv.Scales{}, of(kv.TensorScale, 2), "V has 2 scales, want 1 of kind tensor"},
		"values of none":   {of(kv.NoScales, 1), kv.Scales{}, "K has 1 scales, want 0 of kind none"},
		"half a head":      {of(kv.ChannelScale, 3), kv.Scales{}, "K has 3 scales, want 6 of kind channel"},
		"channels of V":    {kv.Scales{}, of(kv.ChannelScale, 6), "V has scales of kind channel"},
		"an unknown kind":  {of(7, 6), kv.Scales{}, "kind ScaleKind(7)"},
	} {
		view := scaledView(x.k, x.v)
		err := view.Validate()
		if x.says == "" && err != nil || x.says != "" && (!errors.Is(err, attn.ErrShape) || !strings.Contains(err.Error(), x.says)) {
			t.Errorf("%s: %v, want %q", name, err, x.says)
		}
	}
}

// TestInt4RowsAreWholeBytes: a stride that is not even would begin a row at half a byte.
func TestInt4RowsAreWholeBytes(t *testing.T) {
	for _, change := range []func(*kv.Plane){
		func(p *kv.Plane) { p.PageStride-- },
		func(p *kv.Plane) { p.HeadStride-- },
		func(p *kv.Plane) { p.SlotStride-- },
	} {
		view := scaledView(kv.Scales{}, kv.Scales{})
		change(&view.K)
		if err := view.Validate(); !errors.Is(err, attn.ErrShape) || !strings.Contains(err.Error(), "want even ones") {
			t.Errorf("%v, want ErrShape for an odd stride", err)
		}
	}
	view := scaledView(kv.Scales{}, kv.Scales{})
	view.K.Data = view.K.Data[:15]
	if err := view.Validate(); !errors.Is(err, attn.ErrShape) {
		t.Errorf("a byte too few: %v, want ErrShape", err)
	}
	view.K.Type = 99
	if err := view.Validate(); !errors.Is(err, attn.ErrShape) || !strings.Contains(err.Error(), "DType(99)") {
		t.Errorf("type 99: %v, want ErrShape", err)
	}
}

// TestContiguousScales reads tensors [1, 2, 2, 3] with scales of their own.
func TestContiguousScales(t *testing.T) {
	k := kv.Tensor{Type: kv.I4, Data: []byte{0x21, 3, 0xf4, 7, 0, 0, 0x98, 1}, Scales: kv.Scales{
		Kind: kv.ChannelScale, Values: []float32{1, 1, 1, 10, 100, float32(math.Inf(1))},
	}}
	v := kv.Tensor{Type: kv.I8, Data: []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0xff}, Scales: kv.Scales{
		Kind: kv.TokenScale, Values: []float32{1, 10, -1, 0.5}, PageStride: 99,
	}}
	view, err := kv.Contiguous(k, v, 1, 2, 2, 3, 3, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := view.Validate(); err != nil {
		t.Fatal(err)
	}
	var keys, values []float32
	rows := view.Sequence(0)
	for i := range 4 {
		var row [3]float32
		rows.Key(row[:], i/2, i%2)
		keys = append(keys, row[:]...)
		rows.Value(row[:], i/2, i%2)
		values = append(values, row[:]...)
	}
	if want := []float32{1, 2, 3, 4, -1, 7, 0, 0, nan, -80, -700, nan}; !sameFloats(keys, want) {
		t.Errorf("keys are %v, want %v", keys, want)
	}
	if want := []float32{1, 2, 3, 40, 50, 60, -7, -8, -9, 5, 5.5, -0.5}; !sameFloats(values, want) {
		t.Errorf("values are %v, want %v", values, want)
	}
	v.Scales.Values = v.Scales.Values[1:]
	if _, err := kv.Contiguous(k, v, 1, 2, 2, 3, 3, nil); !errors.Is(err, attn.ErrShape) || !strings.Contains(err.Error(), "v has 3 scales, want [1, 2, 2]") {
		t.Errorf("a scale too few: %v, want ErrShape", err)
	}
	k.Type = 99
	if _, err := kv.Contiguous(k, v, 1, 2, 2, 3, 3, nil); !errors.Is(err, attn.ErrShape) {
		t.Errorf("type 99: %v, want ErrShape", err)
	}
}
