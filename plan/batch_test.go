package plan_test

import (
	"math/rand/v2"
	"testing"

	"github.com/flashdec/flashdec/plan"
)

// lens are sequences with one query each.
func lens(lens ...int) []plan.Seq {
	seqs := make([]plan.Seq, len(lens))
	for i, n := range lens {
		seqs[i] = plan.Seq{Len: n, NumQueries: 1}
	}
	return seqs
}

func equal(n, length int) []plan.Seq {
	seqs := make([]plan.Seq, n)
	for i := range seqs {
		seqs[i] = plan.Seq{Len: length, NumQueries: 1}
	}
	return seqs
}

func random(rng *rand.Rand, n, longest int) []plan.Seq {
	seqs := make([]plan.Seq, n)
	for i := range seqs {
		seqs[i] = plan.Seq{Len: rng.IntN(longest + 1), NumQueries: 1}
	}
	return seqs
}

// concat is all parts one after the other.
func concat(parts ...[]plan.Seq) []plan.Seq {
	var seqs []plan.Seq
	for _, p := range parts {
		seqs = append(seqs, p...)
	}
	return seqs
}

// mustNew makes a plan and checks it.
func mustNew(t testing.TB, cfg plan.Config) *plan.Plan {
	t.Helper()
	p, err := plan.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	return p
}
