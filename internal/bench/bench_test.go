package bench_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/internal/bench"
	"github.com/flashdec/flashdec/internal/simd"
	"github.com/flashdec/flashdec/kv"
)

// TestFields: machines read these names; a record that lacks one is of no use
// to them.
func TestFields(t *testing.T) {
	var names []string
	row := reflect.TypeFor[bench.Row]()
	for i := range row.NumField() {
		name, _, _ := strings.Cut(row.Field(i).Tag.Get("json"), ",")
		names = append(names, name)
	}
	for _, want := range []string{
		"suite", "case", "backend", "impl", "batch", "q_heads", "kv_heads", "key_dim", "value_dim", "len", "q_len", "kv_dtype", "page_size", "threads",
		"splits", "seconds", "seconds_min", "kv_bytes", "bytes_per_second", "ceiling_bytes_per_second", "share", "gpus", "device", "commit", "command",
	} {
		if !slices.Contains(names, want) {
			t.Errorf("rows have no field %q, only %v", want, names)
		}
	}
}

func TestMedian(t *testing.T) {
	for want, x := range map[float64][]float64{3: {9, 3, 1}, 2.5: {4, 1, 3, 2}, 7: {7}} {
		if got := bench.Median(x); got != want {
			t.Errorf("median of %v is %v, want %v", x, got, want)
		}
	}
}

func TestSizes(t *testing.T) {
	for _, tc := range []struct {
		c                bench.Case
		keys, kv, stored int
	}{
		{bench.Case{KVHeads: 2, Dim: 4, Lens: []int{100, 5}, DType: kv.F16, Window: 10}, 15, 15 * 2 * 2 * 8, 2 * 200 * 2 * 8},
		{bench.Case{KVHeads: 2, Dim: 4, Lens: []int{100, 5}, DType: kv.F16, PageSize: 16}, 105, 105 * 2 * 2 * 8, 2 * 128 * 2 * 8},
		{bench.Case{KVHeads: 1, Dim: 64, Lens: []int{10}, DType: kv.I8}, 10, 10 * 2 * (64 + 4), 2 * 10 * 64},
		{bench.Case{KVHeads: 1, Dim: 64, Lens: []int{10}, DType: kv.I4}, 10, 10 * 2 * (32 + 4), 2 * 10 * 32},
	} {
		if got := tc.c.Keys(); got != tc.keys {
			t.Errorf("%+v: %d keys, want %d", tc.c, got, tc.keys)
		}
		if got := tc.c.KVBytes(); got != tc.kv {
			t.Errorf("%+v: reads %d bytes, want %d", tc.c, got, tc.kv)
		}
		if got := tc.c.StoredBytes(); got != tc.stored {
			t.Errorf("%+v: stores %d bytes, want %d", tc.c, got, tc.stored)
		}
		if got := tc.c.Batch(0).KVBits; got != tc.c.DType.Bits() {
			t.Errorf("%+v: planned for elements of %d bits, want %d", tc.c, got, tc.c.DType.Bits())
		}
	}
}

// TestSuites measures the smallest case of each suite: all ways compute it, and
// what they have to report is sound.
func TestSuites(t *testing.T) {
	const bytes = 2 << 20
	a, err := bench.NewArena(bytes)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	for i := range bench.Suites {
		s := &bench.Suites[i]
		t.Run(s.Name, func(t *testing.T) {
			cases := s.Cases(bytes)
			if len(cases) == 0 && (s.Name == "blog" || s.Name == "decode") {
				cases = s.Cases(1 << 30)[:1] // their sizes are fixed, and more than these bytes
				cases[0].Lens = []int{64, 64}
			} else if len(cases) == 0 && s.Name != "levels" { // plain Go alone has no level below
				t.Fatal("no case")
			}
			for _, c := range cases[:min(len(cases), 3)] {
				report(t, a, c)
			}
		})
	}
}

func report(t *testing.T, a *bench.Arena, c bench.Case) {
	t.Helper()
	eng, err := flashdec.Open(flashdec.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close()
	list, err := bench.Impls(context.Background(), &c, a, 2, eng)
	if err != nil {
		t.Fatal(err)
	}
	if err := bench.Measure(context.Background(), [][]*bench.Impl{list}, 1); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, im := range list[1:] {
		names = append(names, im.Name)
		row := im.Row(c.Name, 2, eng.Info())
		if !(row.Seconds > 0) || row.Min > row.Seconds || row.Rate != float64(row.KVBytes)/row.Seconds || math.Abs(row.Share*row.Ceiling/row.Rate-1) > 1e-12 {
			t.Errorf("%s, %s: %+v", c.Name, im.Name, row)
		}
		if row.Keys != im.Case.Keys() || im.Slow && row.Keys > c.Keys() {
			t.Errorf("%s, %s: %d keys, of a case of %d", c.Name, im.Name, row.Keys, c.Keys())
		}
		if (row.Note != "") != (int(row.KVBytes) < c.KVBytes() && im.Slow) {
			t.Errorf("%s, %s: %d of %d bytes, with the note %q", c.Name, im.Name, row.KVBytes, c.KVBytes(), row.Note)
		}
	}
	if want := []string{"flashdec", "unsplit", "direct", "plain"}; !slices.Equal(names, want) {
		t.Errorf("%s: measured %v, want %v", c.Name, names, want)
	}
}

// TestWaysAgree: what is compared must compute the same.
func TestWaysAgree(t *testing.T) {
	a, err := bench.NewArena(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	eng, err := flashdec.Open(flashdec.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close()
	for _, dtype := range bench.DTypes {
		for _, window := range []int{0, 9} {
			c := bench.Case{Heads: 6, KVHeads: 2, Dim: 32, Lens: []int{77}, PageSize: 16, DType: dtype, Window: window}
			results, err := bench.Results(&c, a, eng)
			if err != nil {
				t.Fatal(err)
			}
			for i, x := range results["direct"] {
				for name, y := range results {
					if !(math.Abs(y[i]-x) < 1e-5) {
						t.Fatalf("%v, window %d: element %d is %v by %s, %v by the direct form", dtype, window, i, y[i], name, x)
					}
				}
			}
		}
	}
}

func TestArenaTooSmall(t *testing.T) {
	a, err := bench.NewArena(1)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	c := bench.Grouped(kv.F32, 1, 128, 1<<20)
	if _, err := a.Views(context.Background(), &c); err == nil || !strings.Contains(err.Error(), "but there are") {
		t.Errorf("error %v, want one that says what there is", err)
	}
}

func TestCompare(t *testing.T) {
	at := func(name string, seconds, least, ceiling float64) bench.Row {
		return bench.Row{Suite: "s", Case: name, Impl: "flashdec", Seconds: seconds, Min: least, Ceiling: ceiling, KVBytes: 1}
	}
	old := []bench.Row{at("faster", 2, 2, 10), at("slower", 1, 1, 10), at("noisy", 1, 0.9, 10), at("same", 1, 1, 10), at("noisy faster", 1, 0.54, 10), at("a slower machine", 1, 1, 10), at("gone", 1, 1, 10)}
	now := []bench.Row{at("faster", 1, 1, 10), at("slower", 1.1, 1.1, 10), at("noisy", 1.2, 1.05, 10), at("same", 1.04, 1.04, 10), at("noisy faster", 0.44, 0.44, 10), at("a slower machine", 2, 2, 5), at("new", 1, 1, 10)}
	want := map[string]bool{"faster": true, "slower": true, "noisy": false, "noisy faster": false, "same": false, "a slower machine": false}
	changes := bench.Compare(old, now)
	if len(changes) != len(want) {
		t.Errorf("%d changes, want %d: rows that only one side has are none", len(changes), len(want))
	}
	for _, c := range changes {
		if c.Beyond() != want[c.After.Case] {
			t.Errorf("%s: ratio %.3f, noise %.3f, beyond it: %v", c.After.Case, c.Ratio, c.Noise, c.Beyond())
		}
	}
}

func TestReadRows(t *testing.T) {
	row := bench.Row{Suite: "s", Case: "c", Impl: "i", Seconds: 2, Min: 1, Note: "n"}
	line, err := json.Marshal(row)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := bench.ReadRows(strings.NewReader(string(line) + "\n\n" + string(line)))
	if err != nil || !slices.Equal(rows, []bench.Row{row, row}) {
		t.Errorf("%+v, %v", rows, err)
	}
	but := func(field string) string {
		return `{"suite":"s","case":"c","impl":"i","seconds":2,"seconds_min":1,` + field + `}`
	}
	for bad, says := range map[string]string{
		"{": "JSON", "[]": "a list, want an object", "{}": "no row", `{"suite":"s","case":"c","impl":"i","seconds":0}`: "no row",
		but(`"len":"x"`): "len has a string, want a whole number", but(`"len":-5`): "len is -5, want 0 to", but(`"keys":9000000000000000000`): "keys is 9",
		but(`"share":-1`): "share is -1", but(`"bytes_per_second":1e300`): "bytes_per_second is 1e+300", but(`"seconds":1e200`): "seconds is 1e+200",
		but(`"note":"` + strings.Repeat("x", 1<<20) + `"`): "longer than 1048576 bytes",
	} {
		if _, err := bench.ReadRows(strings.NewReader(bad)); err == nil || !strings.HasPrefix(err.Error(), "line 1: ") || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "Go ") {
			t.Errorf("%.80s: error %v, want one of line 1 that says %q", bad, err, says)
		}
	}
}

// TestCodesAreAsACacheHasThem: a row that was quantised by its own largest element has
// the largest code, which kernels count on; all of a case's rows have it.
func TestCodesAreAsACacheHasThem(t *testing.T) {
	a, err := bench.NewArena(4 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	for dtype, largest := range map[kv.DType]float32{kv.I8: 127, kv.I4: 7} {
		for _, dim := range []int{64, 128, 256} {
			c := bench.Grouped(dtype, 1, dim, 2<<20)
			views, err := a.Views(context.Background(), &c)
			if err != nil {
				t.Fatal(err)
			}
			row := make([]float32, dim)
			for _, p := range []*kv.Plane{&views[len(views)-1].K, &views[len(views)-1].V} {
				scale := p.Scales.Values[0]
				for i := range c.StoredRows() {
					p.Row(row, 0, i/c.Lens[0], i%c.Lens[0])
					if got := max(slices.Max(row), -slices.Min(row)); got != largest*scale {
						t.Fatalf("%v, dim %d: the largest of row %d is %v, want %v", dtype, dim, i, got/scale, largest)
					}
				}
			}
		}
	}
}

// TestFillStops: laying out gigabytes can be interrupted, and is not taken for done.
func TestFillStops(t *testing.T) {
	a, err := bench.NewArena(1 << 24)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c := bench.Case{Heads: 1, KVHeads: 1, Dim: 128, Lens: []int{64}, DType: kv.F32}
	if _, err := a.Views(ctx, &c); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
	views, err := a.Views(context.Background(), &c)
	if err != nil {
		t.Fatal(err)
	}
	if last := views[len(views)-1].V.Data; bytes.Count(last[len(last)-64:], []byte{0}) == 64 {
		t.Error("after an interrupted fill the memory is taken for filled")
	}
}

// TestPagesInOrder: of the cases with pages of 16, one has them anywhere and one in
// order, and each has a ratio of its own to contiguous rows, those of its own shape alone.
func TestPagesInOrder(t *testing.T) {
	i := slices.IndexFunc(bench.Suites, func(s bench.Suite) bool { return s.Name == "pages" })
	var rows []bench.Row
	for _, c := range bench.Suites[i].Cases(1 << 20) {
		rows = append(rows, bench.Row{Suite: "pages", Case: c.Name, Impl: "flashdec", Batch: 1, Len: c.Lens[0], PageSize: c.PageSize, Rate: float64(1 + len(rows))})
		view := c.View()
		if sorted := slices.IsSorted(view.Seqs[0].Pages); sorted != (c.InOrder || len(view.Seqs[0].Pages) == 1) {
			t.Errorf("%s: pages in order: %t", c.Name, sorted)
		}
	}
	length := rows[0].Len
	for _, other := range []bench.Row{{Batch: 2, Len: length}, {Batch: 1, Len: 7}, {Batch: 1, Len: length, KVDType: "f16"}, {Batch: 1, Len: length, QHeads: 4}} {
		other.Suite, other.Impl, other.PageSize, other.Rate = "pages", "flashdec", 16, 1
		rows = append(rows, other)
	}
	var what []string
	for _, r := range bench.Ratios(rows) {
		what = append(what, r.What)
	}
	keys := fmt.Sprintf("1 × %d keys, ", length)
	if want := []string{keys + "pages of 16 slots, against contiguous", keys + "pages of 16 slots, in order, against contiguous"}; !slices.Equal(what, want) {
		t.Errorf("ratios %q, want %q", what, want)
	}
}

// TestRoundsAreTakenAtTheCasesLevel: what is asked for while a step is computed is of its case's level, and of
// the best one again afterwards.
func TestRoundsAreTakenAtTheCasesLevel(t *testing.T) {
	best := simd.Level()
	for _, level := range append(simd.Levels(), "") {
		want := level
		if level == "" {
			want = best
		}
		got := ""
		if err := bench.RoundOf(&bench.Case{Level: level}, func() error { got = simd.Level(); return nil }); err != nil {
			t.Fatal(err)
		}
		if got != want || simd.Level() != best {
			t.Errorf("level %q: computed at %q, and %q afterwards", level, got, simd.Level())
		}
	}
	if err := bench.RoundOf(&bench.Case{Level: "bogus"}, func() error { return nil }); err == nil {
		t.Error("a level that no CPU has was measured")
	}
}
