package flashdec_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/plan"
)

// halves plans as a GPU of 128 processors does half of which read as fast as all, while
// an item has at most 2560 keys of dim 128, or 256 of elements that it converts.
type halves struct{ backend.Backend }

func (halves) Info() backend.Info {
	return backend.Info{Width: 128, StartKeys: 256, Saturating: 68, MergeKeys: 7, SaturatingElements: 2560 * 256, SaturatingConverted: 256 * 256}
}

// TestConvertedTypesAreCutForAll: what a backend says of the items of converted elements goes
// by the size of a batch's, and moves no border where that is unknown, forced or invariant.
func TestConvertedTypesAreCutForAll(t *testing.T) {
	eng, err := flashdec.Open(flashdec.Options{Backend: halves{}})
	if err != nil {
		t.Fatal(err)
	}
	cut := func(bits, splits int, invariant bool) *plan.Plan {
		t.Helper()
		step, err := eng.Plan(flashdec.Batch{
			Shape: attn.Shape{NumHeads: 32, NumKVHeads: 8, KeyDim: 128, ValueDim: 128}, Lens: []int{16384},
			KVBits: bits, NumSplits: splits, Invariant: invariant,
		})
		if err != nil {
			t.Fatal(err)
		}
		return step.Plan()
	}
	for bits, want := range map[int]int{0: 8, 4: 16, 8: 16, 16: 8, 32: 16} {
		if got := cut(bits, 0, false).MaxSplits(); got != want {
			t.Errorf("elements of %d bits: %d splits, want %d", bits, got, want)
		}
	}
	for what, p := range map[string][2]*plan.Plan{
		"forced":    {cut(0, 12, false), cut(8, 12, false)},
		"invariant": {cut(0, 0, true), cut(8, 0, true)},
	} {
		if !reflect.DeepEqual(p[0].Items, p[1].Items) {
			t.Errorf("%s splits begin elsewhere for elements of 8 bits", what)
		}
	}
	for _, bits := range []int{-1, 33} {
		if _, err := eng.Plan(flashdec.Batch{Shape: tiny, Lens: []int{3}, KVBits: bits}); !errors.Is(err, attn.ErrOption) {
			t.Errorf("elements of %d bits: %v, want ErrOption", bits, err)
		}
	}
}
