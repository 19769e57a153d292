package model_test

import (
	"fmt"
	"testing"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/model"
	"github.com/flashdec/flashdec/model/modeltest"
)

// goldens are the models of testdata/golden, or of the folder that the environment names.
func goldens(t testing.TB) []modeltest.Golden {
	t.Helper()
	return modeltest.Goldens(t, "testdata/golden")
}

func openModel(t testing.TB, path string) *model.Model {
	t.Helper()
	m, err := model.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

func newRunner(t testing.TB, m *model.Model, opt model.Options) *model.Runner {
	t.Helper()
	if opt.Threads == 0 {
		opt.Threads = 2
	}
	eng, err := flashdec.Open(flashdec.Options{Threads: opt.Threads})
	if err != nil {
		t.Fatal(err)
	}
	opt.Engine = eng
	r, err := model.NewRunner(m, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		_ = eng.Close()
	})
	return r
}

// goldenLimit is how far logits may be from the float64 ones, as a share of their spread. What is computed
// is float32 throughout; f16 caches round keys and values to 11 bits.
var goldenLimit = map[kv.DType]float64{kv.F32: 2e-5, kv.F16: 2e-3}

// TestGoldenLogits: the logits of every position, however the tokens are fed, with whatever pages, and
// the greedy continuation token for token.
func TestGoldenLogits(t *testing.T) {
	for _, g := range goldens(t) {
		for _, dtype := range []kv.DType{kv.F32, kv.F16} {
			for _, chunk := range []int{len(g.IDs), 1, 7} {
				for _, page := range []int{128, 3} {
					t.Run(fmt.Sprintf("%s/kv=%v/chunk=%d/page=%d", g.Name(), dtype, chunk, page), func(t *testing.T) {
						r := newRunner(t, openModel(t, g.Dir), model.Options{KeyType: dtype, ValueType: dtype, PageSize: page})
						g.Check(t, r, chunk, goldenLimit[dtype])
					})
				}
			}
		}
	}
}
