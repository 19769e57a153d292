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

// CheckEnv is the error of an environment that asks for a kernel level by a name
// that none has. [New] then takes the best.
func CheckEnv() error { return simd.CheckEnv() }

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
	k, v := simd.Elem(view.K.Type), simd.Elem(view.V.Type)
	if k >= simd.NumElems {
		return kernels{}, fmt.Errorf("cpu: %w: no kernel for keys of type %v", attn.ErrOption, view.K.Type)
	}
	if v >= simd.NumElems {
		return kernels{}, fmt.Errorf("cpu: %w: no kernel for values of type %v", attn.ErrOption, view.V.Type)
	}
	return kernels{k, v, lib.scores[k], lib.accumulate[v]}, nil
}
