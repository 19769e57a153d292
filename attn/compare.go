package attn

import (
	"fmt"
	"math"
)

// The limits of a result that is computed in float32, whatever the element type
// of its keys and values: those are read exactly. Arguments in docs/NUMERICS.md.
const (
	// OutLimit times the largest |v| bounds |out − direct|.
	OutLimit = 1e-5
	// LSELimit + LSERelative·|lse| bounds |lse − direct|.
	LSELimit    = 1e-5
	LSERelative = 1e-6
)

// Distance is how far a float32 result lies from a [Reference].
type Distance struct {
	Out       float64 // largest |out − ref| where both are finite
	OutMean   float64 // mean of |out − ref| where both are finite
	LSE       float64 // largest |lse − ref| where both are finite
	LSEShare  float64 // largest |lse − ref| / (LSELimit + LSERelative·|ref|)
	NonFinite int     // elements where NaN or an infinity stands in one and not the other
}

// Within reports whether the distance keeps to a limit for out, and the LSE to
// its own. A NaN or an infinity out of place is never within.
func (d Distance) Within(outLimit float64) bool {
	return d.NonFinite == 0 && d.Out <= outLimit && d.LSEShare <= 1
}

// Compare measures a result. lse may be nil. It wraps [ErrShape].
func (r *Reference) Compare(out, lse []float32) (Distance, error) {
	if len(out) != len(r.Out) {
		return Distance{}, fmt.Errorf("%w: out has %d elements, want %d", ErrShape, len(out), len(r.Out))
	}
	if lse != nil && len(lse) != len(r.LSE) {
		return Distance{}, fmt.Errorf("%w: lse has %d elements, want %d", ErrShape, len(lse), len(r.LSE))
	}
	var d Distance
	for i, want := range r.Out {
		if diff, finite := d.differ(float64(out[i]), want); finite {
			d.Out = max(d.Out, diff)
			d.OutMean += diff
		}
	}
	d.OutMean /= float64(max(len(r.Out), 1))
	for i := range lse {
		want := r.LSE[i]
		if diff, finite := d.differ(float64(lse[i]), want); finite {
			d.LSE = max(d.LSE, diff)
			d.LSEShare = max(d.LSEShare, diff/(LSELimit+LSERelative*math.Abs(want)))
		}
	}
	return d, nil
}

// differ is |got − want| where both are finite. Where one is not, the other must
// be the same NaN or infinity: a tolerance would let NaN pass.
func (d *Distance) differ(got, want float64) (diff float64, finite bool) {
	if isFinite(got) && isFinite(want) {
		return math.Abs(got - want), true
	}
	if got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
		d.NonFinite++
	}
	return 0, false
}

func isFinite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// MaxAbsValue is the largest finite |v| among all values of a sequence's KV
// heads, the scale that [OutLimit] is relative to. 0 when there are none.
func MaxAbsValue(shape Shape, kv KeyValues) float64 {
	largest := 0.0
	row := make([]float32, shape.ValueDim)
	for head := range shape.NumKVHeads {
		for pos := range kv.Len() {
			kv.Value(row, head, pos)
			for _, v := range row {
				if x := math.Abs(float64(v)); x > largest && isFinite(x) {
					largest = x
				}
			}
		}
	}
	return largest
}
