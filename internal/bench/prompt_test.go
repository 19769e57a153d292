package bench_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/internal/bench"
)

// TestPromptRow: tokens a second are of the whole prompt, and its share is of multiply-adds alone.
func TestPromptRow(t *testing.T) {
	p := bench.Prompt{
		ModelSteps:   bench.ModelSteps{Model: "abacus", Context: 100, Impl: "flashdec", WeightBytes: 900, KVBytes: 100, Seconds: []float64{8, 4, 2}},
		MultiplyAdds: 1000, Peak: []float64{500, 400, 1000},
	}
	info := backend.Info{Name: "cpu", Device: "beads"}
	r := p.Row(2, info)
	if r.Suite != bench.PromptSuite || r.Len != 100 || r.QLen != 100 || r.TokenRate != 25 || r.Peak != 500 || r.Floor() != 2 || r.Share != 0.5 || r.Spread != 1 || r.Min != 2 {
		t.Errorf("%+v, want 25 tokens a second, half of what multiply-adds alone allow", r)
	}
	if changes := bench.Compare([]bench.Row{r}, []bench.Row{r}); len(changes) != 1 || changes[0].Ratio != 1 {
		t.Errorf("a row beside itself: %+v", changes)
	}
	p.Peak = nil
	if r := p.Row(0, info); r.Peak != 0 || r.Share != 0 || r.Floor() != 0 || r.TokenRate != 25 {
		t.Errorf("%+v, want no share of what was not measured", r)
	}
}

// TestMeasurePrompts: ways in turn, each round from another on, each after multiply-adds alone; a first round that was short
// does not count.
func TestMeasurePrompts(t *testing.T) {
	var order []string
	way := func(name string) *bench.Prompt {
		return &bench.Prompt{ModelSteps: bench.ModelSteps{Step: func(context.Context) (float64, error) {
			order = append(order, name)
			return float64(len(order)), nil
		}}}
	}
	a, b := way("a"), way("b")
	peak := func() float64 { order = append(order, "-"); return 1 }
	if err := bench.MeasurePrompts(t.Context(), []*bench.Prompt{a, b}, 2, peak); err != nil {
		t.Fatal(err)
	}
	if strings.Join(order, "") != "-a-b-b-a-a-b" || !slices.Equal(a.Seconds, []float64{8, 10}) || !slices.Equal(b.Seconds, []float64{6, 12}) || len(a.Peak) != 2 {
		t.Errorf("order %v, seconds %v and %v", order, a.Seconds, b.Seconds)
	}
	broken := errors.New("broken")
	a.Step = func(context.Context) (float64, error) { return 0, broken }
	if err := bench.MeasurePrompts(t.Context(), []*bench.Prompt{a}, 1, nil); !errors.Is(err, broken) {
		t.Errorf("error %v, want the way's", err)
	}
}

// TestLongPromptsCount: where a round takes long, the first counts.
func TestLongPromptsCount(t *testing.T) {
	long := &bench.Prompt{ModelSteps: bench.ModelSteps{Step: func(context.Context) (float64, error) {
		time.Sleep(time.Second + time.Millisecond)
		return 1, nil
	}}}
	if err := bench.MeasurePrompts(t.Context(), []*bench.Prompt{long}, 1, nil); err != nil || len(long.Seconds) != 2 {
		t.Errorf("%v, %d rounds, want both", err, len(long.Seconds))
	}
}

// TestMultiplyAdds: what a machine does.
func TestMultiplyAdds(t *testing.T) {
	if rate := bench.MultiplyAdds(2); !(rate > 1e6) || rate > 1e15 {
		t.Errorf("%v multiply-adds a second", rate)
	}
}
