package attn

import (
	"fmt"
	"math"
)

// Limits bound how far a float32 result may lie from a [Reference], row by row:
//
//	|out − ref| ≤ (Out + 2⁻²⁴·Score·A)·V + OutAbsolute
//	|lse − ref| ≤ LSE + 2⁻²⁴·Score·A + LSERelative·|ref|
//
// where A is the row's [Reference.AbsScore] and V its [Reference.AbsValue].
// Limits of causes that add up add up, field by field. The argument for each is
// in docs/NUMERICS.md.
type Limits struct {
	Out         float64 // a share of V
	OutAbsolute float64
	LSE         float64 // absolute, natural
	LSERelative float64 // a share of the reference's
	// Score is how far a score may be off, in units of 2⁻²⁴ (half a unit in the
	// last place of 1) of the sum of its absolute products.
	Score float64
}

// Float32Limits are the limits of a result that was computed in float32 on keys
// of keyDim elements, whatever the element type of keys and values: those are read
// exactly.
func Float32Limits(keyDim int) Limits {
	return Limits{
		Out:         1e-5,
		OutAbsolute: math.SmallestNonzeroFloat32, // no float32 lies nearer
		LSE:         1e-5,
		LSERelative: 1e-6,
		Score:       4 + float64(keyDim)/64,
	}
}

// RoundedWeights are the limits of a result whose weights were rounded to bfloat16, by 2⁻⁸
// of themselves at most, and which is their average.
func (l Limits) RoundedWeights() Limits {
	l.Out += 0x1p-8
	return l
}

// out is the limit of a row's outputs.
func (l *Limits) out(absScore, absValue float64) float64 {
	return (l.Out+0x1p-24*l.Score*absScore)*absValue + l.OutAbsolute
}

// lse is the limit of a row's log-sum-exp.
func (l *Limits) lse(absScore, ref float64) float64 {
	return l.LSE + 0x1p-24*l.Score*absScore + l.LSERelative*math.Abs(ref)
}

// Distance is how far a float32 result lies from a [Reference].
type Distance struct {
	Out       float64 // largest |out − ref| where both are finite
	LSE       float64 // largest |lse − ref| where both are finite
	OutShare  float64 // largest |out − ref| as a share of its row's limit
	LSEShare  float64 // largest |lse − ref| as a share of its row's limit
	OutLimit  float64 // the limit of the row that OutShare is of
	NonFinite int     // elements where NaN or an infinity stands in one and not the other
}

// Within reports whether the result keeps to all limits. A NaN or an infinity
// out of place never does.
func (d Distance) Within() bool {
	return d.NonFinite == 0 && d.OutShare <= 1 && d.LSEShare <= 1
}

// Compare measures a result against limits. A nil out or lse is not looked at.
// It wraps [ErrShape].
func (r *Reference) Compare(out, lse []float32, limits Limits) (Distance, error) {
	if err := r.check(out, lse); err != nil {
		return Distance{}, err
	}
	d := Distance{OutLimit: limits.OutAbsolute}
	for row := range r.AbsScore {
		if out != nil {
			d.compareOut(r, row, out, limits.out(r.AbsScore[row], r.AbsValue[row]))
		}
		if lse != nil {
			d.compareLSE(float64(lse[row]), r.LSE[row], limits.lse(r.AbsScore[row], r.LSE[row]))
		}
	}
	return d, nil
}

// check refuses lengths that do not fit.
func (r *Reference) check(out, lse []float32) error {
	if r == nil {
		return fmt.Errorf("%w: the reference is nil", ErrShape)
	}
	rows := len(r.AbsScore)
	switch {
	case len(r.AbsValue) != rows:
		return fmt.Errorf("%w: the reference has %d rows by AbsScore, %d by AbsValue", ErrShape, rows, len(r.AbsValue))
	case out != nil && (len(out) != len(r.Out) || rows == 0 && len(out) > 0 || rows > 0 && len(out)%rows != 0):
		return fmt.Errorf("%w: out has %d elements, want %d in %d rows", ErrShape, len(out), len(r.Out), rows)
	case lse != nil && (len(lse) != rows || len(r.LSE) != rows):
		return fmt.Errorf("%w: lse has %d elements, want %d for %d rows", ErrShape, len(lse), len(r.LSE), rows)
	}
	return nil
}

// compareOut takes in a row of out.
func (d *Distance) compareOut(r *Reference, row int, out []float32, limit float64) {
	dim := len(out) / len(r.AbsScore)
	largest := 0.0
	for i := row * dim; i < (row+1)*dim; i++ {
		if diff, finite := d.differ(float64(out[i]), r.Out[i]); finite {
			largest = max(largest, diff)
		}
	}
	d.Out = max(d.Out, largest)
	if share := share(largest, limit); !(share <= d.OutShare) || row == 0 {
		d.OutShare, d.OutLimit = share, limit
	}
}

// compareLSE takes in the LSE of a row.
func (d *Distance) compareLSE(got, want, limit float64) {
	if diff, finite := d.differ(got, want); finite {
		d.LSE = max(d.LSE, diff)
		d.LSEShare = max(d.LSEShare, share(diff, limit))
	}
}

// share is diff / limit, where an exact result has a share of 0 in any limit.
func share(diff, limit float64) float64 {
	if diff == 0 {
		return 0
	}
	return diff / limit
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
