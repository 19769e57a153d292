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

// machine is one whose pace changes from round to round: it notes who runs, and stops
// after so many turns.
type machine struct {
	ran  []string
	stop int
}

var errStopped = errors.New("the machine stopped")

// way takes so many seconds in each round, the first of which does not count.
func (m *machine) way(c *bench.Case, name string, seconds ...float64) *bench.Impl {
	round := 0
	return bench.Timed(name, c, 1, 1, func(context.Context) (float64, error) {
		if m.stop > 0 && len(m.ran) == m.stop {
			return 0, errStopped
		}
		m.ran = append(m.ran, c.Name+" "+name)
		round++
		return seconds[(round-1)%len(seconds)], nil
	})
}

// two are cases of 10 and 30 keys, the second against the first.
func (m *machine) two() [][]*bench.Impl {
	short, long := &bench.Case{Name: "short", Lens: []int{10}}, &bench.Case{Name: "long", Lens: []int{30}, Against: "short"}
	return [][]*bench.Impl{
		{m.way(short, "read", 1), m.way(short, "flashdec", 9, 1, 20, 3), m.way(short, "plain", 1)},
		{m.way(long, "read", 1), m.way(long, "flashdec", 9, 2, 50, 9)},
	}
}

// TestMeasuredInTurns: a round takes a way of each case before the next way of any, each
// after its own bare read; each round begins with another way, and with another case.
func TestMeasuredInTurns(t *testing.T) {
	m := &machine{}
	if err := bench.Measure(context.Background(), m.two(), 2); err != nil {
		t.Fatal(err)
	}
	short, long, plain := []string{"short read", "short flashdec"}, []string{"long read", "long flashdec"}, []string{"short read", "short plain"}
	if want := slices.Concat(short, long, plain, plain, long, short, short, long, plain); !slices.Equal(m.ran, want) {
		t.Errorf("ran %q, want %q", m.ran, want)
	}
}

// TestComparedInTheSameRounds: the ratio is the median of the rounds' ratios, not the
// ratio of medians: of a machine that changed its pace, that would be another number.
func TestComparedInTheSameRounds(t *testing.T) {
	m := &machine{}
	cases := m.two()
	if err := bench.Measure(context.Background(), cases, 3); err != nil {
		t.Fatal(err)
	}
	long := cases[1][1].Row("long", 1, backend.Info{})
	// Thrice the keys in 2, 50/20 and 3 times as long: 1.5, 1.2 and 1.
	if !(abs(long.Times-1.2) < 1e-12) || long.Against != "short" || long.Rounds != 3 {
		t.Errorf("%v times %q in %d rounds, want 1.2 times \"short\" in 3", long.Times, long.Against, long.Rounds)
	}
	for _, im := range cases[0][1:] {
		if row := im.Row("short", 1, backend.Info{}); row.Times != 0 || row.Against != "" {
			t.Errorf("%s: %v times %q, but it is compared with nothing", row.Impl, row.Times, row.Against)
		}
	}
}

// TestRoundsBeforeAnError: what was measured before stays, and the error says of whom it
// is.
func TestRoundsBeforeAnError(t *testing.T) {
	m := &machine{stop: 6 + 6 + 3} // in the second round that counts, before long's way
	cases := m.two()
	err := bench.Measure(context.Background(), cases, 3)
	if !errors.Is(err, errStopped) || !strings.Contains(err.Error(), "long, flashdec") {
		t.Errorf("%v, want %v of long, flashdec", err, errStopped)
	}
	if short, long := cases[0][1], cases[1][1]; short.Rounds() != 2 || long.Rounds() != 1 || long.Row("long", 1, backend.Info{}).Times != 1.5 {
		t.Errorf("%d and %d rounds, %+v, want 2, 1 and a ratio of 1.5", short.Rounds(), long.Rounds(), long.Row("long", 1, backend.Info{}))
	}
}

// TestRatiosOfTurns: a row that was measured in turns brings its ratio; one that was not,
// or with another, has the ratio of rates.
func TestRatiosOfTurns(t *testing.T) {
	row := func(name, dtype string, seconds float64) bench.Row {
		return bench.Row{Suite: "types", Case: name, Impl: "flashdec", KVDType: dtype, Batch: 1, Len: 100, Seconds: seconds}
	}
	in, other := row("int8, group 1", "int8", 1), row("int4, group 1", "int4", 1)
	in.Against, in.Times = "f16, group 1", 1.75
	other.Against, other.Times = "f32, group 1", 3
	got := make(map[string]float64)
	for _, r := range bench.Ratios([]bench.Row{row("f16, group 1", "f16", 2), in, other, row("e4m3, group 1", "e4m3", 4)}) {
		got[r.What] = r.Times
	}
	for what, times := range map[string]float64{"int8, group 1, against f16": 1.75, "int4, group 1, against f16": 2, "e4m3, group 1, against f16": 0.5} {
		if got[what] != times {
			t.Errorf("%s: %v, want %v", what, got[what], times)
		}
	}
}

// TestMemory: an arena a type, and the scales of rows of each size.
func TestMemory(t *testing.T) {
	cases := []bench.Case{bench.Grouped(0, 1, 128, 1<<20), bench.Grouped(0, 4, 64, 1<<20)}
	if got := bench.Memory(cases, 1<<20); got != 1<<20 {
		t.Errorf("of one type: %d bytes, want %d", got, 1<<20)
	}
	for _, dim := range []int{128, 128, 64} {
		cases = append(cases, bench.Grouped(bench.DTypes[5], 1, dim, 1<<20))
	}
	if got, want := bench.Memory(cases, 1<<20), 2<<20+(1<<20/128+1<<20/64)*4; got != want {
		t.Errorf("of two types, one with scales: %d bytes, want %d", got, want)
	}
}

func abs(x float64) float64 { return max(x, -x) }
