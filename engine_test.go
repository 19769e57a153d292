package flashdec_test

import (
	"context"
	"errors"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/kv"
)

var tiny = attn.Shape{NumHeads: 2, NumKVHeads: 1, KeyDim: 2, ValueDim: 2}

// opened is an engine with a sequence of three tokens, and a step planned for it.
func opened(t *testing.T) (eng *flashdec.Engine, cache *kv.Cache, seq *kv.Sequence, step *flashdec.Step) {
	t.Helper()
	eng, err := flashdec.Open(flashdec.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	cache, err = eng.NewCache(kv.Config{NumKVHeads: 1, KeyDim: 2, ValueDim: 2, PageSize: 2, NumPages: 8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cache.Close() })
	seq = cache.NewSequence()
	if err := seq.Append(make([]float32, 6), make([]float32, 6)); err != nil {
		t.Fatal(err)
	}
	if step, err = eng.Plan(flashdec.Batch{Shape: tiny, Lens: []int{3}}); err != nil {
		t.Fatal(err)
	}
	return eng, cache, seq, step
}

func view(t *testing.T, cache *kv.Cache, seqs ...*kv.Sequence) kv.View {
	t.Helper()
	v, err := cache.View(seqs...)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestCallersMistakes: wrong arguments are errors that say got and want, never a
// panic.
func TestCallersMistakes(t *testing.T) {
	eng, cache, seq, step := opened(t)
	ctx, q, good := context.Background(), make([]float32, 4), view(t, cache, seq)
	states := attn.MakeStates(1, 2)
	_, nilErr := cache.View(nil)
	_, planErr := eng.Plan(flashdec.Batch{Shape: tiny, Lens: []int{3}, NumQueries: []int{1, 1}})
	_, negativeErr := eng.Plan(flashdec.Batch{Shape: tiny, Lens: []int{-1}})
	_, shapeErr := eng.Plan(flashdec.Batch{Lens: []int{3}})
	_, threadsErr := flashdec.Open(flashdec.Options{Threads: -1})
	for _, tc := range []struct {
		err  error
		kind error
		says string
	}{
		{eng.Decode(ctx, nil, q, good, step.NewOutput()), attn.ErrShape, "the step is nil, want one"},
		{eng.Decode(ctx, step, q, good, nil), attn.ErrShape, "the output is nil"},
		{eng.DecodeStates(ctx, step, q, good, nil), attn.ErrShape, "the states are nil"},
		{eng.DecodeStates(ctx, step, q, good, &states), attn.ErrShape, "2"},
		{eng.Decode(ctx, step, q[:3], good, step.NewOutput()), attn.ErrShape, "3"},
		{eng.Decode(ctx, step, q, good, &flashdec.Output{}), attn.ErrShape, "0"},
		{eng.Decode(ctx, step, q, kv.View{}, step.NewOutput()), attn.ErrShape, "0"},
		{states.Merge(nil), attn.ErrShape, "part 0: shape mismatch: the states are nil"},
		{nilErr, attn.ErrShape, "sequence 0 of the view"},
		{planErr, attn.ErrShape, "query counts for 2 sequences, want 1"},
		{negativeErr, attn.ErrShape, "-1"},
		{shapeErr, attn.ErrShape, "KV heads is 0"},
		{threadsErr, attn.ErrOption, "-1 threads"},
	} {
		if !errors.Is(tc.err, tc.kind) || !strings.Contains(tc.err.Error(), tc.says) {
			t.Errorf("got %v, want %v with %q", tc.err, tc.kind, tc.says)
		}
	}
}

// TestNeverOpened: the zero engine, step and sequence are not open, planned or
// alive, and say so.
func TestNeverOpened(t *testing.T) {
	eng, cache, seq, step := opened(t)
	var zero flashdec.Engine
	_, planErr := zero.Plan(flashdec.Batch{Shape: tiny, Lens: []int{3}})
	var none *flashdec.Step
	if zero.Info() != (backend.Info{}) || none.NumQueries() != 0 || none.Plan() != nil || len(none.NewOutput().Out) != 0 {
		t.Error("nothing is something")
	}
	var nilContext context.Context
	good := view(t, cache, seq)
	for _, tc := range []struct{ err, kind error }{
		{planErr, flashdec.ErrClosed},
		{zero.Close(), flashdec.ErrClosed},
		{zero.Decode(context.Background(), step, make([]float32, 4), good, step.NewOutput()), flashdec.ErrClosed},
		{eng.Decode(nilContext, step, make([]float32, 4), good, step.NewOutput()), attn.ErrOption},
		{eng.Decode(context.Background(), &flashdec.Step{}, nil, good, &flashdec.Output{}), attn.ErrShape},
		{new(kv.Sequence).Append(nil, nil), kv.ErrFreed},
		{new(kv.Sequence).Free(), kv.ErrFreed},
		{new(kv.Cache).Close(), kv.ErrFreed},
		{new(kv.Cache).NewSequence().Append([]float32{1}, []float32{1}), kv.ErrFreed},
	} {
		if !errors.Is(tc.err, tc.kind) {
			t.Errorf("got %v, want %v", tc.err, tc.kind)
		}
	}
}

// TestSizesThatNoBufferHas are refused when they are planned, before anything is
// allocated.
func TestSizesThatNoBufferHas(t *testing.T) {
	eng, _, _, _ := opened(t)
	huge := attn.Shape{NumHeads: 1 << 20, NumKVHeads: 1, KeyDim: 1 << 20, ValueDim: 1 << 20}
	for _, queries := range [][]int{{1 << 20}, {1 << 5}, {-1}, {1, 1 << 20}, {math.MaxInt, math.MaxInt}} {
		_, err := eng.Plan(flashdec.Batch{Shape: huge, Lens: make([]int, len(queries)), NumQueries: queries})
		if !errors.Is(err, attn.ErrShape) {
			t.Errorf("%d queries of 2^20 heads of dim 2^20: %v, want ErrShape", queries, err)
		}
	}
	huge.NumHeads, huge.KeyDim = 1, 1
	if _, err := eng.Plan(flashdec.Batch{Shape: huge, Lens: []int{0}}); err != nil {
		t.Errorf("2^20 elements, which a buffer may have: %v", err)
	}
	if _, err := flashdec.Open(flashdec.Options{Threads: math.MaxInt}); !errors.Is(err, attn.ErrOption) {
		t.Errorf("MaxInt threads: %v, want ErrOption", err)
	}
}

// TestChangedPlan: the plan that a step shows is for reading.
func TestChangedPlan(t *testing.T) {
	eng, cache, seq, step := opened(t)
	step.Plan().Items[0].Seq = 7
	err := eng.Decode(context.Background(), step, make([]float32, 4), view(t, cache, seq), step.NewOutput())
	if !errors.Is(err, attn.ErrShape) || !strings.Contains(err.Error(), "Seq:7") {
		t.Errorf("an item of sequence 7 of 1: %v, want ErrShape", err)
	}
}

// TestStaleStep is the fault of replaying a plan after the lengths have changed.
func TestStaleStep(t *testing.T) {
	eng, cache, seq, step := opened(t)
	if err := seq.Append(make([]float32, 2), make([]float32, 2)); err != nil {
		t.Fatal(err)
	}
	err := eng.Decode(context.Background(), step, make([]float32, 4), view(t, cache, seq), step.NewOutput())
	if !errors.Is(err, attn.ErrShape) || !strings.Contains(err.Error(), "3 keys in sequence 0, the cache 4") {
		t.Errorf("a step planned for 3 keys on a sequence of 4: %v", err)
	}
}

// TestClosedEngine: whatever a closed engine is asked for is refused, what needs no thread, too; what it was stays known.
func TestClosedEngine(t *testing.T) {
	eng, cache, seq, step := opened(t)
	info := eng.Info()
	if err := eng.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, q, v := context.Background(), make([]float32, 4), view(t, cache, seq)
	_, planErr := eng.Plan(flashdec.Batch{Shape: tiny, Lens: []int{3}})
	_, cacheErr := eng.NewCache(kv.Config{NumKVHeads: 1, KeyDim: 2, ValueDim: 2, NumPages: 1})
	_, neverErr := new(flashdec.Engine).NewCache(kv.Config{NumKVHeads: 1, KeyDim: 2, ValueDim: 2, NumPages: 1})
	for what, err := range map[string]error{
		"Decode":                    eng.Decode(ctx, step, q, v, step.NewOutput()),
		"DecodeStates":              eng.DecodeStates(ctx, step, q, v, &attn.States{}),
		"Plan":                      planErr,
		"NewCache":                  cacheErr,
		"NewCache, never opened":    neverErr,
		"Close, for a second time,": eng.Close(),
	} {
		if !errors.Is(err, flashdec.ErrClosed) {
			t.Errorf("%s of a closed engine: %v, want ErrClosed", what, err)
		}
	}
	if eng.Assist(func() bool { return true }) || eng.Info() != info {
		t.Errorf("a closed engine helps, or is %+v, want %+v", eng.Info(), info)
	}
}

// TestOpenRefusesUnknownLevel: a misspelt FLASHDEC_SIMD, which a process reads at
// its start, is an error and not another level.
func TestOpenRefusesUnknownLevel(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^ExampleEngine_Decode$")
	cmd.Env = append(os.Environ(), "FLASHDEC_SIMD=bogus")
	text, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(text), `FLASHDEC_SIMD is "bogus", want a level that this CPU has: generic`) {
		t.Errorf("%v\n%s, want an error that names the levels", err, text)
	}
}

// TestPlanRefusesAMaskThatDoesNotFit: a tree beside plain decode, trees of another
// number, keys that are not there: before anything is computed.
func TestPlanRefusesAMaskThatDoesNotFit(t *testing.T) {
	eng, _, _, _ := opened(t)
	tree, err := attn.TreeMask([]int{-1, 0, 0})
	if err != nil {
		t.Fatal(err)
	}
	three := *tree
	three.Seqs, three.Visible = 3, make([]uint8, 27)
	for _, x := range []struct {
		mask          *attn.Mask
		lens, queries []int
		says          string
	}{
		{tree, []int{9, 9}, []int{3, 1}, "mask of 3 queries, but sequence 1 has 1"},
		{tree, []int{9}, nil, "mask of 3 queries, but sequence 0 has 1"},
		{tree, []int{9, 2}, []int{3, 3}, "mask of 3 keys, but sequence 1 has 2"},
		{&three, []int{9, 9}, []int{3, 3}, "mask for 3 sequences, want 1 or 2"},
		{tree, []int{9, 9}, []int{3, 3}, ""},
		{&three, []int{9, 9, 3}, []int{3, 3, 3}, ""},
	} {
		_, err := eng.Plan(flashdec.Batch{Shape: tiny, Options: attn.Options{Mask: x.mask}, Lens: x.lens, NumQueries: x.queries})
		switch {
		case x.says == "" && err != nil:
			t.Errorf("lengths %v, queries %v: %v", x.lens, x.queries, err)
		case x.says != "" && (!errors.Is(err, attn.ErrShape) || !strings.Contains(err.Error(), x.says)):
			t.Errorf("lengths %v, queries %v: %v, want ErrShape with %q", x.lens, x.queries, err, x.says)
		}
	}
}

// TestWithSinksSharesThePlan: the step's own sinks stay, and only the denominator
// differs: e^ln3 = 3 beside the three scores of 0 halves the weight of each.
func TestWithSinksSharesThePlan(t *testing.T) {
	eng, cache, seq, step := opened(t)
	ln3 := float32(math.Log(3))
	with, err := step.WithSinks([]float32{ln3, float32(math.Inf(-1))})
	if err != nil {
		t.Fatal(err)
	}
	if with.Plan() != step.Plan() {
		t.Error("the plan is another")
	}
	for _, tc := range []struct {
		step *flashdec.Step
		want [2]float64 // LSE of each head
	}{{step, [2]float64{math.Log(3), math.Log(3)}}, {with, [2]float64{math.Log(6), math.Log(3)}}} {
		out := tc.step.NewOutput()
		if err := eng.Decode(context.Background(), tc.step, make([]float32, 4), view(t, cache, seq), out); err != nil {
			t.Fatal(err)
		}
		for h, want := range tc.want {
			if got := float64(out.LSE[h]); math.Abs(got-want) > 1e-6 {
				t.Errorf("head %d has LSE %v, want %v", h, got, want)
			}
		}
	}
	if _, err := step.WithSinks([]float32{0}); !errors.Is(err, attn.ErrShape) {
		t.Errorf("one sink for two heads: %v, want %v", err, attn.ErrShape)
	}
}

// TestStaleViewIsNotDecoded: the page that a truncated, or freed, sequence gave back
// belongs to another now, whose numbers the old view would read.
func TestStaleViewIsNotDecoded(t *testing.T) {
	for name, change := range map[string]func(*kv.Cache, *kv.Sequence) error{
		"truncated": func(_ *kv.Cache, s *kv.Sequence) error { return s.Truncate(2) },
		"freed":     func(_ *kv.Cache, s *kv.Sequence) error { return s.Free() },
		"closed":    func(c *kv.Cache, _ *kv.Sequence) error { return c.Close() },
	} {
		eng, cache, seq, step := opened(t)
		old, other := view(t, cache, seq), cache.NewSequence()
		if err := change(cache, seq); err != nil {
			t.Fatal(err)
		}
		if name != "closed" {
			if err := other.Append(make([]float32, 2), []float32{7, 7}); err != nil {
				t.Fatal(err)
			}
		}
		q := make([]float32, 4)
		if err := eng.Decode(t.Context(), step, q, old, step.NewOutput()); !errors.Is(err, kv.ErrStale) {
			t.Errorf("%s: Decode returns %v, want ErrStale", name, err)
		}
		if err := eng.DecodeStates(t.Context(), step, q, old, step.NewStates()); !errors.Is(err, kv.ErrStale) {
			t.Errorf("%s: DecodeStates returns %v, want ErrStale", name, err)
		}
	}
}

// TestAssist: a goroutine is lent until it is told to go, and not at all to an engine that is closed, or was
// never opened.
func TestAssist(t *testing.T) {
	eng, err := flashdec.Open(flashdec.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	if !eng.Assist(func() bool { asked++; return asked == 3 }) || asked != 3 {
		t.Errorf("the CPU took no help, or took it after it was told to go: asked %d times", asked)
	}
	if err := eng.Close(); err != nil {
		t.Fatal(err)
	}
	never := func() bool { t.Error("a closed engine asks"); return true }
	if eng.Assist(never) || new(flashdec.Engine).Assist(never) || (*flashdec.Engine)(nil).Assist(never) {
		t.Error("a closed engine took help")
	}
}
