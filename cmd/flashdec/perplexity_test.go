package main

import (
	"math"
	"testing"
)

// TestPredictionsOfNoNumberEnd: a logit that is NaN or an infinity is never averaged in,
// whichever cache it came from.
func TestPredictionsOfNoNumberEnd(t *testing.T) {
	good := []float32{1, 2, 3}
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		bad := []float32{1, float32(x), 3}
		for _, logits := range [][][]float32{{bad, good}, {good, bad}} {
			r := &perplexityReport{comparison: new(comparison)}
			if r.position(1, logits, 0, 3) {
				t.Errorf("the next token's logits %v were taken", logits)
			}
		}
	}
	r := &perplexityReport{comparison: new(comparison)}
	if !r.position(1, [][]float32{good, good}, 0, 3) {
		t.Error("finite logits were refused")
	}
}
