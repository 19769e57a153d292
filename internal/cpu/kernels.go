package cpu

import (
	"fmt"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/internal/simd"
	"github.com/flashdec/flashdec/kv"
)

// library is the tile kernels of every element type, looked up once a backend.
type library struct {
	scores      [simd.NumElems]simd.ScoresFunc
	headsScores [simd.NumElems]simd.HeadsScoresFunc

	pairs   [simd.NumElems]pairs // nil where the level has none
	sums    [simd.NumElems]sums
	rounded [simd.NumElems]sums // of rounded weights, nil where the level has none

	integers [simd.NumElems]*simd.Integer // nil where the level has none
}

// pairs are the kernels of scores that take queries in pairs of bfloat16.
type pairs struct {
	pairScores      simd.ScoresFunc
	headsPairScores simd.HeadsScoresFunc
}

// sums are the kernels of weighted values.
type sums struct {
	accumulate      simd.AccumulateFunc
	headsAccumulate simd.HeadsAccumulateFunc
}

// CheckEnv is the error of an environment that asks for a kernel level by a name
// that none has. [New] then takes the best.
func CheckEnv() error { return simd.CheckEnv() }

func newLibrary() *library {
	lib := new(library)
	for e := range simd.Elem(simd.NumElems) {
		lib.scores[e], lib.headsScores[e], lib.integers[e] = simd.Scores(e), simd.HeadsScores(e), simd.IntegerKernels(e)
		lib.pairs[e] = pairs{simd.PairScores(e), simd.HeadsPairScores(e)}
		lib.sums[e] = sums{simd.Accumulate(e), simd.HeadsAccumulate(e)}
		lib.rounded[e] = sums{simd.AccumulateRounded(e), simd.HeadsAccumulateRounded(e)}
	}
	return lib
}

// roundedGroup is the least group of which weights are rounded, of values of type e; 0 where
// the level rounds none.
func (lib *library) roundedGroup(e simd.Elem) int {
	if lib.rounded[e].accumulate == nil {
		return 0
	}
	return simd.RoundedRows(e)
}

// kernels are the tile kernels of a launch.
type kernels struct {
	k, v        simd.Elem
	scores      simd.ScoresFunc
	headsScores simd.HeadsScoresFunc
	pairs       // nil where keys are not multiplied so

	sums
	rounded sums // take the sums' place where they are not nil: weights are rounded

	// integerK and integerV come first where they are not nil, for keys and for values.
	integerK, integerV *simd.Integer
}

// kernels are those for a cache's element types and groups of a size. It wraps
// [attn.ErrOption].
func (lib *library) kernels(view *kv.View, group int) (kernels, error) {
	k, v := simd.Elem(view.K.Type), simd.Elem(view.V.Type)
	if k >= simd.NumElems {
		return kernels{}, fmt.Errorf("cpu: %w: no kernel for keys of type %v", attn.ErrOption, view.K.Type)
	}
	if v >= simd.NumElems {
		return kernels{}, fmt.Errorf("cpu: %w: no kernel for values of type %v", attn.ErrOption, view.V.Type)
	}
	ks := kernels{k: k, v: v, scores: lib.scores[k], headsScores: lib.headsScores[k], sums: lib.sums[v]}
	if group >= simd.PairedRows(k) && scaledLate(view.K.Scales.Kind) && view.K.Dim%simd.PairRow(k) == 0 {
		ks.pairs = lib.pairs[k]
	}
	if group >= simd.RoundedRows(v) && view.V.Dim%simd.RoundedRow(v) == 0 {
		ks.rounded = lib.rounded[v]
	}
	if f := lib.integers[k]; f.Takes(view.K.Dim) {
		ks.integerK, ks.headsScores = f, nil
	}
	if f := lib.integers[v]; f.Takes(view.V.Dim) {
		ks.integerV, ks.headsAccumulate = f, nil
	}
	return ks, nil
}
