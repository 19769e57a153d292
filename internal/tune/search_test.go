package tune

import (
	"context"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flashdec/flashdec/internal/cpu"
	"github.com/flashdec/flashdec/internal/gpubench"
	"github.com/flashdec/flashdec/kv"
)

var small = Class{Dim: 16, Group: 2, DType: kv.F16}

// TestMeasure measures a class for a moment: what comes out is of the grid, about
// the machine, and can be kept.
func TestMeasure(t *testing.T) {
	last := 0.0
	e, err := Measure(context.Background(), small, 2, 50*time.Millisecond, func(x float64) {
		if x < last || x > 1 {
			t.Errorf("told %v after %v, want it to grow to 1", x, last)
		}
		last = x
	})
	if err != nil || last != 1 {
		t.Fatalf("%v; told %v at last, want 1", err, last)
	}
	if want := KeyOf(cpu.New(cpu.Options{Threads: 2}).Info(), 16, 16, 2, [2]kv.DType{kv.F16, kv.BF16}); e.Key != want {
		t.Errorf("key %+v, want %+v", e.Key, want)
	}
	if !slices.Contains(candidates(2), constants{e.MinKeysPerSplit, e.HelperWork}) {
		t.Errorf("%+v is not of the grid", e)
	}
	if builtIn := e.MinKeysPerSplit == 0; builtIn != (e.Saved == 0) || e.Saved < 0 || e.Saved >= 1 {
		t.Errorf("%+v: saved %v", e, e.Saved)
	}
	e.Tuned = "2026-11-30"
	if err := Save(t.TempDir(), e); err != nil {
		t.Error(err)
	}
}

// TestMeasureGPU: the same for a GPU, where only the planner has a constant.
func TestMeasureGPU(t *testing.T) {
	g, err := gpubench.Open(GPUBytes)
	if err != nil {
		if slices.Contains(strings.Split(os.Getenv("FLASHDEC_REQUIRE"), ","), "cuda") {
			t.Fatalf("FLASHDEC_REQUIRE=cuda: %v", err)
		}
		t.Skip(err)
	}
	defer func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, dtype := range []kv.DType{kv.F16, kv.I8} {
		e, err := MeasureGPU(context.Background(), Class{Dim: 128, Group: 4, DType: dtype}, g, time.Second, func(float64) {})
		if err != nil {
			t.Fatal(err)
		}
		if e.Key != KeyOf(g.Info(), 128, 128, 4, [2]kv.DType{dtype, dtype}) || e.HelperWork != 0 || e.Backend != "cuda" {
			t.Errorf("found %+v", e)
		}
		if !slices.Contains(candidates(1), constants{e.MinKeysPerSplit, 0}) || e.Saved < 0 || e.Saved > 0.5 {
			t.Errorf("%+v is not of the grid, or saves too much", e)
		}
		t.Logf("%v: %+v", dtype, e)
	}
}

func TestMeasureIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	calls := 0
	start := time.Now()
	_, err := Measure(ctx, small, 2, time.Hour, func(float64) {
		if calls++; calls == 3 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || time.Since(start) > time.Minute {
		t.Errorf("%v after %v, want context.Canceled at once", err, time.Since(start))
	}
}

// measured is a search of three candidates and two steps with these seconds.
func measured(seconds [2][3]float64) *search {
	s := &search{list: []constants{{}, {256, 1 << 19}, {512, 1 << 19}}}
	for _, step := range seconds {
		var timings []*timing
		for _, x := range step {
			timings = append(timings, &timing{sample: []float64{x, 100 * x, x / 50, x, x}})
		}
		s.steps = append(s.steps, timings)
	}
	return s
}

// TestBest: the median counts, every step as much as any other, and what saves
// next to nothing is left as it is built in.
func TestBest(t *testing.T) {
	for _, tc := range []struct {
		seconds [2][3]float64
		best    int
		ratio   float64
	}{
		{[2][3]float64{{1, 0.9, 0.5}, {1000, 900, 800}}, 2, math.Sqrt(0.4)},
		{[2][3]float64{{1, 0.5, 0.9}, {1000, 1000, 950}}, 1, math.Sqrt(0.5)},
		{[2][3]float64{{1, 0.99, 1}, {1000, 985, 1100}}, 0, 1},
		{[2][3]float64{{1, 2, 3}, {1, 2, 3}}, 0, 1},
	} {
		s := measured(tc.seconds)
		if best := s.best(); best != tc.best || math.Abs(s.ratio(best)-tc.ratio) > 1e-12 {
			t.Errorf("%v: candidate %d at %v of the time, want %d at %v", tc.seconds, best, s.ratio(best), tc.best, tc.ratio)
		}
	}
}

// TestCandidatesShareTimings: what leads to the same plan on the same backend is
// measured once, and what does not is measured apart.
func TestCandidatesShareTimings(t *testing.T) {
	b, err := newCPUBed(small, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.close(); err != nil {
			t.Error(err)
		}
	}()
	list := b.candidates()
	step, err := b.timings(context.Background(), small.cases(2)[0], list) // 512 keys of one head: two splits or one
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range list {
		for j, y := range list {
			alike := x.helperWork == y.helperWork && (cuts(x) == cuts(y))
			if (step[i] == step[j]) != alike {
				t.Errorf("%+v and %+v share a timing: %t, want %t", x, y, step[i] == step[j], alike)
			}
		}
	}
}

// cuts tells whether the constants cut 512 keys in two.
func cuts(c constants) bool { return c.minKeys <= 256 }

// TestCasesGrowWithTheMachine: more threads want longer steps, or the most keys a
// part would always win.
func TestCasesGrowWithTheMachine(t *testing.T) {
	longest := func(threads int) (n int) {
		for _, c := range (Class{Dim: 128, Group: 4, DType: kv.F16}).cases(threads) {
			n = max(n, c.Lens[0])
			if c.StoredBytes() > maxBytes {
				t.Errorf("%s takes %d bytes", c.Name, c.StoredBytes())
			}
		}
		return n
	}
	for threads, want := range map[int]int{1: 8192, 16: 8192, 64: 32768, 128: 65536} {
		if n := longest(threads); n != want {
			t.Errorf("%d threads: at most %d keys, want %d", threads, n, want)
		}
	}
	huge := Class{Dim: 1024, Group: 1, DType: kv.F32}
	if n := len(huge.cases(4096)); n < 8 || n > 20 {
		t.Errorf("%d steps of the largest class, want some that fit", n)
	}
}
