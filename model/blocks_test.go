package model_test

import (
	"slices"
	"testing"

	"github.com/flashdec/flashdec/gguf"
	"github.com/flashdec/flashdec/internal/simd"
	"github.com/flashdec/flashdec/model"
	"github.com/flashdec/flashdec/model/modeltest"
)

// fixedPointLimit is how far 16 bits of what rows of blocks are multiplied with may move logits, as a share of their spread:
// docs/NUMERICS.md.
const fixedPointLimit = 2e-4

// TestBlocksKeepLogits: golden models whose weights are rounded to blocks have, token by token and at every level, the logits
// that the same weights have in plain Go, and the same greedy continuation, unless two tokens are as good as equal.
func TestBlocksKeepLogits(t *testing.T) {
	for _, g := range goldens(t) {
		for _, dtype := range []gguf.Type{gguf.Q8_0, gguf.Q4_1} {
			t.Run(g.Name()+"/"+dtype.String(), func(t *testing.T) {
				m := openModel(t, g.Dir)
				model.PutInBlocks(m, dtype)
				want := tokenByToken(t, m, g.IDs, len(g.Greedy), simd.Generic)
				for _, level := range simd.Levels()[1:] {
					got := tokenByToken(t, m, g.IDs, len(g.Greedy), level)
					d := modeltest.Distance(got.logits, want.wide())
					t.Logf("%s: logits within %.2g of their spread", level, d)
					if !(d <= fixedPointLimit) {
						t.Errorf("%s: logits are %.3g of their spread away, want at most %g", level, d, fixedPointLimit)
					}
					checkGreedy(t, level, got, want)
				}
			})
		}
	}
}

// checkGreedy compares continuations up to where the best two tokens are closer than the limit lets them tell.
func checkGreedy(t *testing.T, level string, got, want said) {
	t.Helper()
	for i, id := range want.greedy {
		if got.greedy[i] == id {
			continue
		}
		if lead := want.lead[i]; lead > 2*fixedPointLimit {
			t.Errorf("%s: token %d of the continuation is %d, want %d, which leads by %.3g of the spread", level, i, got.greedy[i], id, lead)
		}
		return
	}
}

// said is the logits of a text, and what follows, with the best token's lead before the next, as a share of the spread.
type said struct {
	logits []float32
	greedy []int
	lead   []float64
}

func (s *said) wide() []float64 {
	wide := make([]float64, len(s.logits))
	for i, v := range s.logits {
		wide[i] = float64(v)
	}
	return wide
}

// tokenByToken feeds a text token by token at a level, and continues it.
func tokenByToken(t *testing.T, m *model.Model, ids []int, continued int, level string) said {
	restore, err := simd.SetLevel(level)
	if err != nil {
		t.Fatal(err)
	}
	defer restore()
	r := newRunner(t, m, model.Options{})
	seq, vocab := r.NewSequence(), r.Config().VocabSize
	s := said{logits: modeltest.Feed(t, seq, r, ids, 1)}
	last := s.logits[(len(ids)-1)*vocab:]
	for range continued {
		next := modeltest.Argmax(last)
		sorted := slices.Sorted(slices.Values(last))
		s.greedy = append(s.greedy, next)
		s.lead = append(s.lead, float64(sorted[vocab-1]-sorted[vocab-2])/float64(sorted[vocab-1]-sorted[0]))
		last = modeltest.Feed(t, seq, r, []int{next}, 1)
	}
	return s
}
