// Package modeltest holds models' logits to those of another implementation, whatever computes them.
package modeltest

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/flashdec/flashdec/model"
	"github.com/flashdec/flashdec/tensorfile"
)

// GoldenEnv names a folder of more models like those in model/testdata/golden, which cannot all be kept here.
const GoldenEnv = "FLASHDEC_GOLDEN"

// Golden is a small random model and what transformers makes of it in float64 (testdata/README.md).
type Golden struct {
	Dir    string
	IDs    []int
	Logits []float64 // [len(IDs), vocabulary]
	Greedy []int     // what follows
}

// Goldens are those of the folder that the environment names, or else of dir.
func Goldens(t testing.TB, dir string) []Golden {
	t.Helper()
	if other := os.Getenv(GoldenEnv); other != "" {
		dir = other
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*/io.safetensors"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no golden model in %s (%v)", dir, err)
	}
	var all []Golden
	for _, path := range paths {
		if filepath.Base(filepath.Dir(path)) != "deepseek_v3" { // not one of the families
			all = append(all, read(t, path))
		}
	}
	return all
}

func read(t testing.TB, path string) Golden {
	t.Helper()
	f, err := tensorfile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tensor := func(name string) tensorfile.Tensor {
		x, ok := f.Tensor(name)
		if !ok {
			t.Fatalf("%s has no %s", path, name)
		}
		return x
	}
	g := Golden{Dir: filepath.Dir(path)}
	var errs [3]error
	g.IDs, errs[0] = tensor("input_ids").Ints()
	g.Logits, errs[1] = tensor("logits").Float64s()
	g.Greedy, errs[2] = tensor("greedy").Ints()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	return g
}

// Name is the model's folder.
func (g *Golden) Name() string { return filepath.Base(g.Dir) }

// Feed appends ids in chunks, and returns the logits of every token.
func Feed(t testing.TB, seq *model.Sequence, r *model.Runner, ids []int, chunk int) []float32 {
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

// Argmax is the first of the largest.
func Argmax(x []float32) int {
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return best
}

// Distance is the largest difference, as a share of the spread of the right logits.
func Distance(got []float32, want []float64) float64 {
	worst := 0.0
	for i, w := range want {
		if d := math.Abs(float64(got[i]) - w); !(d <= worst) { // NaN, too
			worst = d
		}
	}
	return worst / (slices.Max(want) - slices.Min(want))
}

// Check feeds a new sequence of the runner in chunks: every position's logits are within the limit, as a share
// of their spread, and the greedy continuation is the same, token for token.
func (g *Golden) Check(t *testing.T, r *model.Runner, chunk int, limit float64) {
	t.Helper()
	seq, vocab := r.NewSequence(), r.Config().VocabSize
	logits := Feed(t, seq, r, g.IDs, chunk)
	d := Distance(logits, g.Logits)
	t.Logf("logits within %.2g of their spread", d)
	if !(d <= limit) {
		t.Errorf("logits are %.3g of their spread away, want at most %g", d, limit)
	}
	next := Argmax(logits[(len(g.IDs)-1)*vocab:])
	for i, want := range g.Greedy {
		if next != want {
			t.Fatalf("token %d of the continuation is %d, want %d", i, next, want)
		}
		next = Argmax(Feed(t, seq, r, []int{next}, 1))
	}
}
