package gpubench

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/internal/bench"
	"github.com/flashdec/flashdec/internal/cuda"
	"github.com/flashdec/flashdec/internal/nv"
	"github.com/flashdec/flashdec/kv"
)

// TestPlaces: enough places that no step finds its keys in the L2 cache, all of them
// within the memory, and what queries see at one of them apart from the others.
func TestPlaces(t *testing.T) {
	const memory = 2 * cuda.LeastBytes
	for _, suite := range bench.Suites {
		for _, c := range suite.Cases(512 << 20) {
			g := &GPU{bytes: memory}
			p, err := g.places(&c)
			if err != nil {
				t.Errorf("%s, %s: %v", suite.Name, c.Name, err)
				continue
			}
			if end := (p.count-1)*p.apart + 2*p.half; end > memory || p.count < 1 || p.half%align != 0 || p.apart%align != 0 {
				t.Errorf("%s, %s: %+v ends at %d of %d", suite.Name, c.Name, p, end, memory)
			}
			if 2*p.half < 2*c.StoredRows()*c.RowBytes() {
				t.Errorf("%s, %s: %d bytes a plane for %d rows of %d", suite.Name, c.Name, p.half, c.StoredRows(), c.RowBytes())
			}
			const l2 = 64 << 20 // of the GPUs in use the largest
			if read := p.count * c.KVBytes(); read < l2 {
				t.Errorf("%s, %s: the places have %d bytes to read, want more than an L2 cache", suite.Name, c.Name, read)
			}
			if c.Window > 0 && p.count > 1 && (p.apart < c.Window*c.RowBytes() || (p.count-1)*p.apart+c.Window*c.RowBytes() > c.Lens[0]*c.RowBytes()) {
				t.Errorf("%s, %s: windows of %d keys at %+v meet", suite.Name, c.Name, c.Window, p)
			}
		}
	}
	c := bench.Grouped(kv.F16, 4, 128, 1<<20)
	for bytes, count := range map[int]int{1 << 20: 1, 2<<20 - 1: 1, 2 << 20: 2, 5<<20 + 7: 5} {
		if p, err := (&GPU{bytes: bytes}).places(&c); err != nil || p.count != count {
			t.Errorf("in %d bytes, a case of 1 MiB has %+v, %v, want %d places", bytes, p, err, count)
		}
	}
	if _, err := (&GPU{bytes: 1<<20 - 1}).places(&c); err == nil || !strings.Contains(err.Error(), "1048576") {
		t.Errorf("%v, want that 1048576 bytes are too many", err)
	}
}

// open opens a GPU; without one it skips, or fails where FLASHDEC_REQUIRE lists cuda.
func open(t *testing.T) *GPU {
	t.Helper()
	g, err := Open(64 << 20)
	if err != nil {
		if slices.Contains(strings.Split(os.Getenv("FLASHDEC_REQUIRE"), ","), "cuda") {
			t.Fatalf("FLASHDEC_REQUIRE=cuda: %v", err)
		}
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

func cases() []bench.Case {
	var list []bench.Case
	for _, dtype := range []kv.DType{kv.F16, kv.I8, kv.I4, kv.F32} {
		c := bench.Grouped(dtype, 4, 128, 8<<20)
		c.Name = dtype.String()
		list = append(list, c)
	}
	paged, windowed := list[0], list[0]
	paged.Name, paged.PageSize, paged.Lens = "paged", 16, []int{700, 30, 1}
	windowed.Name, windowed.Window = "windowed", 256
	return append(list, paged, windowed)
}

// TestViewsAreRead: a step at any place, in the GPU's memory, has the bits of the same
// step on a copy of it.
func TestViewsAreRead(t *testing.T) {
	g := open(t)
	eng, err := flashdec.Open(flashdec.Options{Backend: g})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases() {
		views, err := g.Views(context.Background(), &c)
		if err != nil {
			t.Fatal(err)
		}
		step, err := eng.Plan(c.Batch(0))
		if err != nil {
			t.Fatal(err)
		}
		for _, place := range []int{0, len(views) - 1} {
			var outs [2]*flashdec.Output
			for i, view := range []kv.View{views[place], onHost(t, g, views[place])} {
				outs[i] = step.NewOutput()
				if err := eng.Decode(context.Background(), step, c.Query(), view, outs[i]); err != nil {
					t.Fatalf("%s, place %d: %v", c.Name, place, err)
				}
			}
			if !slices.Equal(outs[0].Out, outs[1].Out) || outs[0].LSE[0] == 0 {
				t.Errorf("%s, place %d: other results than of a copy", c.Name, place)
			}
		}
	}
}

// onHost copies a view's planes to the host.
func onHost(t *testing.T, g *GPU, v kv.View) kv.View {
	t.Helper()
	for _, p := range []*kv.Plane{&v.K, &v.V} {
		p.Data = make([]byte, p.Device.Bytes)
		p.Scales.Values = make([]float32, p.Scales.Device.Bytes/4)
		if err := g.Do(func() error {
			if err := nv.Download(g.Stream(), p.Data, nv.Pointer(p.Device.Address)); err != nil {
				return err
			}
			return nv.Download(g.Stream(), p.Scales.Values, nv.Pointer(p.Scales.Device.Address))
		}); err != nil {
			t.Fatal(err)
		}
		p.Device, p.Scales.Device = kv.Memory{}, kv.Memory{}
	}
	return v
}

// TestWaysAreMeasured: rows as the CPU's, of no more than the memory can give.
func TestWaysAreMeasured(t *testing.T) {
	g := open(t)
	eng, err := flashdec.Open(flashdec.Options{Backend: g})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases() {
		w, err := g.Ways(context.Background(), &c, eng)
		if err != nil {
			t.Fatal(err)
		}
		if err := bench.Measure(context.Background(), [][]*bench.Impl{w.List}, 3); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, im := range w.List[1:] {
			row := im.Row(c.Name, 0, g.Info())
			names = append(names, row.Impl)
			if row.Backend != "cuda" || row.Seconds <= 0 || row.Min > row.Seconds || row.Ceiling <= 0 || row.Share <= 0 || row.Share > 1.2 {
				t.Errorf("%s: %+v, want a share of the bare read", c.Name, row)
			}
			if row.Impl == "unsplit" && row.Splits != 1 || int(row.KVBytes) != c.KVBytes() {
				t.Errorf("%s: %+v, want %d bytes and, unsplit, one split", c.Name, row, c.KVBytes())
			}
		}
		if !slices.Equal(names, []string{"flashdec", "unsplit"}) {
			t.Errorf("%s: ways %v", c.Name, names)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
}
