package main

import (
	"fmt"
	"math"

	"github.com/flashdec/flashdec/attn"
)

// verdict is how far a result lies from one reference, over all parts.
type verdict struct {
	Err      float64 // largest |out − reference|, where both are finite
	LSEErr   float64 // largest |lse − reference|, where both are finite
	share    float64 // largest share of the limit of its row, out's
	lseShare float64 // and the LSE's
	rowLimit float64 // the limit of the row that share is of
	census
}

func (v verdict) ok() bool { return v.nonFinite == 0 && v.share <= 1 && v.lseShare <= 1 }

// limit is what Err may be, as a report tells it: the limit of the row that comes
// nearest to its own, in the measure of Err.
func (v verdict) limit() float64 {
	limit := v.rowLimit
	if v.share > 0 {
		limit = v.Err / v.share
	}
	if !(limit <= math.MaxFloat64) { // a row of NaN, which has no numbers to compare
		return 0
	}
	return limit
}

// add takes another part's distance in.
func (v *verdict) add(w verdict) {
	v.near(w)
	v.census = v.census.plus(w.census)
}

// worst takes in the distance of another result of the same part.
func (v *verdict) worst(w verdict) {
	v.near(w)
	v.census = v.census.most(w.census)
}

// near takes in another distance, but for what is counted.
func (v *verdict) near(w verdict) {
	if !(w.share < v.share) {
		v.share, v.rowLimit = w.share, w.rowLimit
	}
	v.Err = max(v.Err, w.Err)
	v.LSEErr = max(v.LSEErr, w.LSEErr)
	v.lseShare = max(v.lseShare, w.lseShare)
}

// measure compares a part of a result with a reference, as far as that goes.
func measure(ref attn.Reference, out, lse []float32, limits attn.Limits) (verdict, error) {
	if ref.Out == nil {
		out = nil
	}
	if ref.LSE == nil {
		lse = nil
	}
	d, err := ref.Compare(out, lse, limits)
	if err != nil {
		return verdict{}, err
	}
	t := censusOf(&ref, out, lse)
	t.nonFinite = d.NonFinite
	return verdict{d.Out, d.LSE, d.OutShare, d.LSEShare, d.OutLimit, t}, nil
}

// outWords tells the distance of out in a report.
func (v verdict) outWords() string {
	if v.rows > 0 && v.outs == 0 {
		return "out not finite"
	}
	return fmt.Sprintf("out %.2g (limit %.2g)", v.Err, v.limit())
}

// lseWords tells the distance of the LSE.
func (v verdict) lseWords() string {
	if v.rows > 0 && v.lses == 0 {
		return "lse not finite"
	}
	return fmt.Sprintf("lse %.2g", v.LSEErr)
}
