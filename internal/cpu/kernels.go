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

	headsScores     [simd.NumElems]simd.HeadsScoresFunc
	headsAccumulate [simd.NumElems]simd.HeadsAccumulateFunc

	integers [simd.NumElems]*simd.Integer // nil where the level has none
}

// CheckEnv is the error of an environment that asks for a kernel level by a name
// that none has. [New] then takes the best.
func CheckEnv() error { return simd.CheckEnv() }

func newLibrary() *library {
	lib := new(library)
	for e := range simd.Elem(simd.NumElems) {
		lib.scores[e], lib.accumulate[e], lib.integers[e] = simd.Scores(e), simd.Accumulate(e), simd.IntegerKernels(e)
		lib.headsScores[e], lib.headsAccumulate[e] = simd.HeadsScores(e), simd.HeadsAccumulate(e)
	}
	return lib
}

// kernels are the tile kernels of a launch.
type kernels struct {
	k, v       simd.Elem
	scores     simd.ScoresFunc
	accumulate simd.AccumulateFunc

	headsScores     simd.HeadsScoresFunc
	headsAccumulate simd.HeadsAccumulateFunc

	// integerK and integerV come first where they are not nil, for keys and for values.
	integerK, integerV *simd.Integer
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
	ks := kernels{k: k, v: v, scores: lib.scores[k], accumulate: lib.accumulate[v], headsScores: lib.headsScores[k], headsAccumulate: lib.headsAccumulate[v]}
	if f := lib.integers[k]; f.Takes(view.K.Dim) {
		ks.integerK, ks.headsScores = f, nil
	}
	if f := lib.integers[v]; f.Takes(view.V.Dim) {
		ks.integerV, ks.headsAccumulate = f, nil
	}
	return ks, nil
}
