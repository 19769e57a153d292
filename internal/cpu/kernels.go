package cpu

import (
	"fmt"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/internal/simd"
	"github.com/flashdec/flashdec/kv"
)

// library is the tile kernels of every element type, looked up once a backend.
type library struct {
	scores     [simd.NumElems]simd.ScoresFunc
	accumulate [simd.NumElems]simd.AccumulateFunc
}

func newLibrary() *library {
	lib := new(library)
	for e := range simd.Elem(simd.NumElems) {
		lib.scores[e], lib.accumulate[e] = simd.Scores(e), simd.Accumulate(e)
	}
	return lib
}

// kernels are the tile kernels of a launch.
type kernels struct {
	k, v       simd.Elem
	scores     simd.ScoresFunc
	accumulate simd.AccumulateFunc
}

// kernels are those for a cache's element types. It wraps [attn.ErrOption].
func (lib *library) kernels(view *kv.View) (kernels, error) {
	k, err := elem(view.K.Type)
	if err != nil {
		return kernels{}, err
	}
	v, err := elem(view.V.Type)
	if err != nil {
		return kernels{}, err
	}
	return kernels{k, v, lib.scores[k], lib.accumulate[v]}, nil
}

// elem is the kernels' name of an element type.
func elem(t kv.DType) (simd.Elem, error) {
	switch t {
	case kv.F32:
		return simd.F32, nil
	case kv.F16:
		return simd.F16, nil
	case kv.BF16:
		return simd.BF16, nil
	case kv.F8E4M3:
		return simd.E4M3, nil
	case kv.F8E5M2:
		return simd.E5M2, nil
	case kv.I8:
		return simd.I8, nil
	case kv.I4:
		return simd.I4, nil
	}
	return 0, fmt.Errorf("cpu: %w: no kernel for elements of type %v", attn.ErrOption, t)
}
