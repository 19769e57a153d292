package gpu_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/cuda"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/model"
	"github.com/flashdec/flashdec/model/gpu"
	"github.com/flashdec/flashdec/model/modeltest"
)

const goldenDir = "../testdata/golden"

// open opens the first GPU as an engine and a device; without one it skips, or fails where FLASHDEC_REQUIRE
// lists cuda.
func open(t testing.TB) (*flashdec.Engine, *gpu.Device) {
	t.Helper()
	g, err := cuda.Open(cuda.Options{})
	if err != nil {
		if slices.Contains(strings.Split(os.Getenv("FLASHDEC_REQUIRE"), ","), "cuda") {
			t.Fatalf("FLASHDEC_REQUIRE=cuda: %v", err)
		}
		t.Skip(err)
	}
	eng, err := flashdec.Open(flashdec.Options{Backend: g})
	if err != nil {
		t.Fatal(err)
	}
	d, err := gpu.New(g)
	if err != nil {
		t.Fatal(errors.Join(err, eng.Close()))
	}
	t.Cleanup(func() {
		if err := errors.Join(d.Close(), eng.Close()); err != nil {
			t.Error(err)
		}
	})
	return eng, d
}

func newRunner(t testing.TB, dir string, opt model.Options) *model.Runner {
	t.Helper()
	m, err := model.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	r, err := model.NewRunner(m, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(r.Close(), m.Close()); err != nil {
			t.Error(err)
		}
	})
	return r
}

// goldenLimit is how far logits may be from the float64 ones, as a share of their spread: keys and values of 16
// bits are rounded to 11 or 8, and rows of a prompt to 16 where cuBLAS multiplies them.
var goldenLimit = map[kv.DType]float64{kv.F32: 1e-4, kv.F16: 2e-3, kv.BF16: 1e-2}

// TestGoldenLogits: the logits of every position, however the tokens are fed, and the greedy continuation token
// for token.
func TestGoldenLogits(t *testing.T) {
	eng, d := open(t)
	for _, g := range modeltest.Goldens(t, goldenDir) {
		for _, dtype := range []kv.DType{kv.F32, kv.F16} {
			for _, chunk := range []int{len(g.IDs), 1, 7} {
				t.Run(fmt.Sprintf("%s/kv=%v/chunk=%d", g.Name(), dtype, chunk), func(t *testing.T) {
					r := newRunner(t, g.Dir, model.Options{Engine: eng, Device: d, KeyType: dtype, ValueType: dtype, PageSize: 16})
					g.Check(t, r, chunk, goldenLimit[dtype])
				})
			}
		}
	}
}
