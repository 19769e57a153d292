package tune

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/internal/bench"
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

// disturbed is a search of two candidates over four steps and 41 rounds: the second takes ratio of the first's time, and
// each time is off by up to noise of itself.
func disturbed(ratio, noise float64) *search {
	rng := rand.New(rand.NewPCG(7, 8))
	s := &search{list: []constants{{}, {256, 1 << 19}}}
	for range 4 {
		step := []*timing{{}, {}}
		for range mostRounds {
			for i, x := range []float64{1, ratio} {
				step[i].sample = append(step[i].sample, x*(1+noise*(2*rng.Float64()-1)))
			}
		}
		s.steps = append(s.steps, step)
	}
	return s
}

// TestNoiseIsWhatTheRatioMayBeOff: nothing where all rounds are alike, however slow some are as a whole; and where times
// differ by chance, about two standard errors.
func TestNoiseIsWhatTheRatioMayBeOff(t *testing.T) {
	for _, noise := range []float64{0, 0.02, 0.2, 0.6} {
		s := disturbed(0.9, noise)
		// A uniform error of ±x has the deviation x/√3; of two, over four steps and 41 rounds, as a median.
		want := 2 * 1.2533 * noise / math.Sqrt(3) * math.Sqrt(2) / math.Sqrt(4*mostRounds)
		if got := s.noise(1); got < 0.6*want || got > 1.7*want {
			t.Errorf("times off by %v: noise %v, want about %v", noise, got, want)
		}
		for i := range mostRounds { // a machine that is three times as slow in every other round is as slow for all
			for _, step := range s.steps {
				for _, x := range step {
					x.sample[i] *= float64(1 + 2*(i%2))
				}
			}
		}
		if got := s.noise(1); got < 0.6*want || got > 1.7*want {
			t.Errorf("in slow rounds, times off by %v: noise %v, want about %v", noise, got, want)
		}
	}
}

// TestUncertain: a choice is uncertain where chance might have made another.
func TestUncertain(t *testing.T) {
	for _, c := range []struct {
		saved, noise float64
		want         bool
	}{
		{0.3, 0.01, false}, {0.3, 0.29, false}, {0.3, 0.31, true}, {0.03, 0.025, false}, {0.03, 0.04, true}, {0, 0.01, false}, {0, 0.03, true},
	} {
		if e := (Entry{Saved: c.saved, Noise: c.noise}); e.Uncertain() != c.want {
			t.Errorf("saves %v ±%v: uncertain %t, want %t", c.saved, c.noise, e.Uncertain(), c.want)
		}
	}
}

// TestNextComputesOtherwise: what shares all timings with the built-in constants says nothing about another choice.
func TestNextComputesOtherwise(t *testing.T) {
	s := measured([2][3]float64{{1, 3, 2}, {1, 3, 2}})
	if got := s.next(); got != 2 {
		t.Errorf("candidate %d is next, want 2", got)
	}
	for _, step := range s.steps {
		step[1], step[2] = step[0], step[0]
	}
	if got := s.next(); got != 0 || s.noise(got) != 0 {
		t.Errorf("where all is one, candidate %d is next, with noise %v, want none", got, s.noise(got))
	}
}

// scripted is a bed whose candidates take the times that a function gives them, a sample after the other.
type scripted struct{ seconds func(candidate int) float64 }

func (scripted) info() backend.Info          { return cpu.New(cpu.Options{Threads: 2}).Info() }
func (scripted) candidates() []constants     { return candidates(2) }
func (scripted) cases(c Class) []*bench.Case { return c.cases(2)[:4] }
func (scripted) close() error                { return nil }

func (b scripted) timings(_ context.Context, _ *bench.Case, list []constants) (step []*timing, err error) {
	for i := range list {
		step = append(step, &timing{take: func(context.Context) (float64, error) { return b.seconds(i), nil }})
	}
	return step, nil
}

// TestDisturbedMachineIsUncertain: a quiet machine's choice is certain, that of one whose times are off by half is not,
// whichever it is, and both can be kept.
func TestDisturbedMachineIsUncertain(t *testing.T) {
	for _, c := range []struct {
		better, noise float64
		uncertain     bool
	}{
		{0.8, 0.01, false}, {1.2, 0.01, false}, {1, 0.9, true}, {1.2, 0.9, true},
	} {
		rng := rand.New(rand.NewPCG(9, 10))
		b := scripted{func(candidate int) float64 {
			x := 1e-3 * (1 + c.noise*(2*rng.Float64()-1))
			if candidate > 0 {
				x *= c.better + 0.01*float64(candidate)
			}
			return x
		}}
		e, err := measure(context.Background(), small, b, time.Hour, func(float64) {})
		if err != nil || e.Uncertain() != c.uncertain {
			t.Errorf("times %v off by %v: %v, saves %v ±%v, uncertain %t, want %t", c.better, c.noise, err, e.Saved, e.Noise, e.Uncertain(), c.uncertain)
		}
		e.Tuned = "2026-11-30"
		if err := Save(t.TempDir(), e); err != nil {
			t.Error(err)
		}
	}
}

// TestNoiseIsOfTheSecondMeasurement, as what is saved is: times that were off while all candidates were tried, and are not
// any more, leave no doubt.
func TestNoiseIsOfTheSecondMeasurement(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	tried, cases := 0, len(scripted{}.cases(small))
	b := scripted{func(candidate int) float64 {
		x := 1e-3
		if tried++; tried <= mostRounds*len(candidates(2))*cases {
			x *= 1 + 0.9*(2*rng.Float64()-1)
		}
		if candidate > 0 {
			x *= 0.5
		}
		return x
	}}
	e, err := measure(context.Background(), small, b, time.Hour, func(float64) {})
	if err != nil || math.Abs(e.Saved-0.5) > 1e-9 || e.Noise > 1e-9 {
		t.Errorf("%v: saves %v ±%v, want 0.5 ±0", err, e.Saved, e.Noise)
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
