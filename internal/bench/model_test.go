package bench_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/internal/bench"
)

// TestModelRow: a decode step's rate and share are of weights, keys and values together, and what was
// measured of another model or context is not compared.
func TestModelRow(t *testing.T) {
	s := bench.ModelSteps{
		Model: "abacus", Context: 128, Impl: "unsplit", Splits: 1, WeightBytes: 900, KVBytes: 100, KVDType: "f16", QHeads: 4, KVHeads: 2, Dim: 8,
		Seconds: []float64{0.5, 0.25, 0.125}, Ceiling: []float64{8000, 10000, 5000},
	}
	r := s.Row(2, backend.Info{Name: "cpu", Device: "beads"})
	for _, f := range []struct {
		name      string
		got, want float64
	}{
		{"bytes", float64(r.Bytes()), 1000},
		{"tokens a second", r.TokenRate, 4},
		{"bytes a second", r.Rate, 4000},
		{"share", r.Share, 0.4}, // of the rounds' 0.25, 0.4 and 1.6
		{"least seconds", r.Min, 0.125},
		{"spread", r.Spread, 0.25},
		{"context", float64(r.Len), 128},
		{"splits", float64(r.Splits), 1},
		{"threads", float64(r.Threads), 2},
	} {
		if f.got != f.want {
			t.Errorf("%s: %v, want %v", f.name, f.got, f.want)
		}
	}
	if r.Suite != bench.ModelSuite || r.Model != "abacus" || r.Impl != "unsplit" || r.Device != "beads" || r.KVDType != "f16" {
		t.Errorf("the row does not say what was measured: %+v", r)
	}
	s.Ceiling = []float64{5000, 20000}
	if r := s.Row(2, backend.Info{}); r.Share != 0.32 {
		t.Errorf("a share of %v of reads that are not one a round, want 4000 of 12500", r.Share)
	}
	s.WeightBytes++
	if changes := bench.Compare([]bench.Row{r}, []bench.Row{s.Row(2, backend.Info{Name: "cpu", Device: "beads"})}); len(changes) != 0 {
		t.Errorf("steps of other bytes are compared: %+v", changes)
	}
	if changes := bench.Compare([]bench.Row{r}, []bench.Row{r}); len(changes) != 1 || changes[0].Beyond() {
		t.Errorf("a row beside itself: %+v", changes)
	}
}

// TestMeasureModel: ways in turn, each round from another on, each after a read of its bytes, the first round not counted.
func TestMeasureModel(t *testing.T) {
	read, err := bench.NewReader(context.Background(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	rate := func(ctx context.Context, bytes int) (float64, error) { return read.Rate(ctx, bytes, 2) }
	var order []string
	way := func(name string, seconds float64) *bench.ModelSteps {
		return &bench.ModelSteps{Impl: name, WeightBytes: 1 << 19, KVBytes: 1 << 19, Step: func(context.Context) (float64, error) {
			order = append(order, name)
			return seconds * float64(len(order)), nil
		}}
	}
	a, b := way("a", 1), way("b", 2)
	if err := bench.MeasureModel(context.Background(), []*bench.ModelSteps{a, b}, 2, rate); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(order, ""); got != "abbaab" || !slices.Equal(a.Seconds, []float64{4, 5}) || !slices.Equal(b.Seconds, []float64{6, 12}) {
		t.Errorf("order %s, seconds %v and %v", got, a.Seconds, b.Seconds)
	}
	if len(a.Ceiling) != 2 || !(a.Ceiling[0] > 0) {
		t.Errorf("the reads before: %v", a.Ceiling)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := bench.MeasureModel(ctx, []*bench.ModelSteps{a}, 1, rate); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
	if _, err := bench.NewReader(ctx, 1<<20); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
}
