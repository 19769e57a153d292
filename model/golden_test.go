package model_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/model"
	"github.com/flashdec/flashdec/tensorfile"
)

// GoldenEnv names a folder of more models like those in testdata/golden, which cannot all be kept here.
const goldenEnv = "FLASHDEC_GOLDEN"

// golden is a small random model and what transformers makes of it in float64 (testdata/README.md).
type golden struct {
	dir    string
	ids    []int
	logits []float64 // [len(ids), vocab]
	greedy []int
}

func goldens(t testing.TB) []golden {
	t.Helper()
	pattern := "testdata/golden/*/io.safetensors"
	if dir := os.Getenv(goldenEnv); dir != "" {
		pattern = filepath.Join(dir, "*/io.safetensors")
	}
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("no golden model matches %s (%v)", pattern, err)
	}
	var all []golden
	for _, path := range paths {
		if filepath.Base(filepath.Dir(path)) == "deepseek_v3" {
			continue // not one of the families
		}
		f, err := tensorfile.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		g := golden{dir: filepath.Dir(path)}
		tensor := func(name string) tensorfile.Tensor {
			x, ok := f.Tensor(name)
			if !ok {
				t.Fatalf("%s has no %s", path, name)
			}
			return x
		}
		var errs [3]error
		g.ids, errs[0] = tensor("input_ids").Ints()
		g.logits, errs[1] = tensor("logits").Float64s()
		g.greedy, errs[2] = tensor("greedy").Ints()
		for _, err := range errs {
			if err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, g)
	}
	return all
}

func (g *golden) name() string { return filepath.Base(g.dir) }

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

// feed appends ids in chunks, and returns the logits of every token.
func feed(t testing.TB, seq *model.Sequence, r *model.Runner, ids []int, chunk int) []float32 {
	t.Helper()
	vocab := r.Config().VocabSize
	logits := make([]float32, len(ids)*vocab)
	for i := 0; i < len(ids); i += chunk {
		end := min(i+chunk, len(ids))
		if err := r.Forward(context.Background(), model.Part{Seq: seq, IDs: ids[i:end], Logits: logits[i*vocab : end*vocab]}); err != nil {
			t.Fatal(err)
		}
	}
	return logits
}

func argmax(x []float32) int {
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return best
}

// distance is the largest difference, as a share of the spread of the right logits.
func distance(got []float32, want []float64) float64 {
	worst := 0.0
	for i, w := range want {
		if d := math.Abs(float64(got[i]) - w); !(d <= worst) { // NaN, too
			worst = d
		}
	}
	return worst / (slices.Max(want) - slices.Min(want))
}

// goldenLimit is how far logits may be from the float64 ones, as a share of their spread. What is computed
// is float32 throughout; f16 caches round keys and values to 11 bits.
var goldenLimit = map[kv.DType]float64{kv.F32: 2e-5, kv.F16: 2e-3}

// TestGoldenLogits: the logits of every position, however the tokens are fed, with whatever pages, and
// the greedy continuation token for token.
func TestGoldenLogits(t *testing.T) {
	for _, g := range goldens(t) {
		for _, dtype := range []kv.DType{kv.F32, kv.F16} {
			for _, chunk := range []int{len(g.ids), 1, 7} {
				for _, page := range []int{128, 3} {
					t.Run(fmt.Sprintf("%s/kv=%v/chunk=%d/page=%d", g.name(), dtype, chunk, page), func(t *testing.T) {
						r := newRunner(t, openModel(t, g.dir), model.Options{KeyType: dtype, ValueType: dtype, PageSize: page})
						g.check(t, r, chunk, goldenLimit[dtype])
					})
				}
			}
		}
	}
}

func (g *golden) check(t *testing.T, r *model.Runner, chunk int, limit float64) {
	seq, vocab := r.NewSequence(), r.Config().VocabSize
	logits := feed(t, seq, r, g.ids, chunk)
	d := distance(logits, g.logits)
	t.Logf("logits within %.2g of their spread", d)
	if !(d <= limit) {
		t.Errorf("logits are %.3g of their spread away, want at most %g", d, limit)
	}
	next := argmax(logits[(len(g.ids)-1)*vocab:])
	for i, want := range g.greedy {
		if next != want {
			t.Fatalf("token %d of the continuation is %d, want %d", i, next, want)
		}
		next = argmax(feed(t, seq, r, []int{next}, 1))
	}
}
