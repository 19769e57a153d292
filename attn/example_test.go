package attn_test

import (
	"fmt"

	"github.com/flashdec/flashdec/attn"
)

// Two processors see different keys of one query. Each sums up what it saw as a
// state, and the states merge into what one processor had got from all keys.
func ExampleMerge() {
	scores := []float64{0.165, 0.24, 0.16} // q·k, scaled
	values := [][]float64{{1, 0}, {0, 1}, {4, 4}}
	see := func(from, to int) attn.State[float64] {
		s := attn.Empty[float64](2)
		for j := from; j < to; j++ {
			s.Push(scores[j], values[j])
		}
		return s
	}

	whole, merged := see(0, 3), attn.Empty[float64](2)
	attn.Merge(&merged, see(0, 1), see(1, 3))
	fmt.Printf("whole:  o %.4f, LSE %.4f\n", whole.O, whole.LSE())
	fmt.Printf("merged: o %.4f, LSE %.4f\n", merged.O, merged.LSE())
	// Output:
	// whole:  o [1.6206 1.6460], LSE 1.2876
	// merged: o [1.6206 1.6460], LSE 1.2876
}

// Attention that another system computed over keys of its own, as an output and a
// log-sum-exp, here in base 2, merges with what this one computed over the others.
func ExampleFromLSE() {
	theirs := attn.FromLSE(attn.LSE2(3).Natural(), []float64{1, 0}, false) // Σ exp(s) is 8,
	ours := attn.FromLSE(attn.LSE2(0).Natural(), []float64{0, 1}, false)   //   and 1
	merged := attn.Empty[float64](2)
	attn.Merge(&merged, theirs, ours)
	fmt.Printf("o %.3f, log2 Σ exp(s) %.3f\n", merged.O, merged.LSE().Base2())
	// Output: o [0.889 0.111], log2 Σ exp(s) 3.170
}

// A result is held to the direct softmax, within limits that its float32 sums explain.
func ExampleDirect() {
	shape := attn.Shape{NumHeads: 1, NumKVHeads: 1, KeyDim: 2, ValueDim: 2}
	ref, err := attn.Direct(shape, &attn.Options{}, 0, []float32{1, 1}, twoKeys{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, out := range [][]float32{{0.5, 0.5}, {0.5, 0.51}} {
		d, err := ref.Compare(out, nil, attn.Float32Limits(shape.KeyDim))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%v within limits: %t\n", out, d.Within())
	}
	// Output:
	// [0.5 0.5] within limits: true
	// [0.5 0.51] within limits: false
}

// twoKeys are (1, 0) and (0, 1), and so are their values.
type twoKeys struct{}

func (twoKeys) Len() int                        { return 2 }
func (twoKeys) Key(dst []float32, _, pos int)   { clear(dst); dst[pos] = 1 }
func (twoKeys) Value(dst []float32, _, pos int) { clear(dst); dst[pos] = 1 }
