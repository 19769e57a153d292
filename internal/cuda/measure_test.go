package cuda

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/internal/bench"
	"github.com/flashdec/flashdec/internal/nv"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/plan"
)

var (
	measureOut    = flag.String("measure", "", "time the suites and write JSON lines to this file")
	measureCases  = flag.String("measure-cases", ".", "regular expression of the cases to time, suite/name")
	measureTuning = flag.String("measure-tunings", "0:0:0", "geometries to time, warps:KiB:splits, 0 for what the backend chooses, separated by commas")
	measureCommit = flag.String("measure-commit", "", "commit to record")
	measureLimit  = flag.Int("measure-max-mb", 8192, "skip cases with more KV than this")
)

// measured is one line of a result file.
type measured struct {
	Suite    string  `json:"suite"`
	Case     string  `json:"case"`
	Backend  string  `json:"backend"`
	Impl     string  `json:"impl"`
	Batch    int     `json:"batch"`
	QHeads   int     `json:"q_heads"`
	KVHeads  int     `json:"kv_heads"`
	KeyDim   int     `json:"key_dim"`
	ValueDim int     `json:"value_dim"`
	Len      int     `json:"len"`
	QLen     int     `json:"q_len"`
	DType    string  `json:"kv_dtype"`
	PageSize int     `json:"page_size"`
	Splits   int     `json:"splits"`
	Seconds  float64 `json:"seconds"`
	Least    float64 `json:"seconds_min"`
	KVBytes  int     `json:"kv_bytes"`
	Rate     float64 `json:"bytes_per_second"`
	Floor    float64 `json:"floor_seconds"`
	Ceiling  float64 `json:"ceiling_bytes_per_second"`
	Share    float64 `json:"share"`
	GPUs     int     `json:"gpus"`
	Device   string  `json:"device"`
	Driver   string  `json:"driver"`
	Commit   string  `json:"commit"`
	Command  string  `json:"command"`
	Tuning   string  `json:"tuning"`
}

// timing is one case: all sequences have the first length, unless there are
// several.
type timing struct {
	suite, name         string
	batch, hq, hkv, dim int
	lens                []int
	dtype               kv.DType
	pageSize            int // 0: each sequence is one page
	window              int
	invariant           bool
}

func timings() []timing {
	var ts []timing
	for _, c := range bench.DecodeShapes {
		ts = append(ts, timing{
			suite: "decode", name: fmt.Sprint(c[:]), batch: c[0], hq: c[1], hkv: c[2], lens: []int{c[3]}, dim: c[4], dtype: kv.BF16,
		})
	}
	for _, c := range [][2]int{
		{256, 256},
		{128, 512},
		{64, 1 << 10},
		{32, 2 << 10},
		{16, 4 << 10},
		{8, 8 << 10},
		{4, 16 << 10},
		{2, 32 << 10},
		{1, 64 << 10},
		{1, 128 << 10},
	} {
		ts = append(ts, timing{
			suite: "blog", name: fmt.Sprintf("%dx%d", c[0], c[1]), batch: c[0], hq: 16, hkv: 2, lens: []int{c[1]}, dim: 128, dtype: kv.F16,
		})
	}
	ragged := append([]int{131072}, slices.Repeat([]int{1024}, 63)...)
	llama := func(suite, name string, lens []int, page, window int, invariant bool) timing {
		return timing{suite: suite, name: name, batch: len(lens), hq: 32, hkv: 8, dim: 128, lens: lens, dtype: kv.BF16, pageSize: page, window: window, invariant: invariant}
	}
	return append(ts,
		llama("pages", "1x65536 page 16", []int{65536}, 16, 0, false),
		llama("pages", "1x65536 page 64", []int{65536}, 64, 0, false),
		llama("pages", "16x4096 page 16", slices.Repeat([]int{4096}, 16), 16, 0, false),
		llama("ragged", "128K and 63 of 1K", ragged, 16, 0, false),
		llama("window", "1024 of 128K", []int{131072}, 16, 1024, false),
		llama("window", "1024 of 1024", []int{1024}, 16, 0, false),
		llama("invariant", "1x65536", []int{65536}, 0, 0, true),
		llama("invariant", "16x4096", slices.Repeat([]int{4096}, 16), 0, 0, true),
		llama("invariant", "128K and 63 of 1K", ragged, 16, 0, true),
	)
}

// beyondL2 is how much memory a case's input sets cover together.
const beyondL2 = 400 << 20

// TestMeasure times decode steps by the replay of a CUDA graph in which many
// launches follow each other over rotating inputs, and a bare read of the same
// bytes the same way. It runs with -measure only.
func TestMeasure(t *testing.T) {
	if *measureOut == "" {
		t.Skip("times on request: -measure FILE")
	}
	filter := regexp.MustCompile(*measureCases)
	b := open(t)
	out, err := os.Create(*measureOut)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	version := "unknown"
	if raw, err := os.ReadFile("/proc/driver/nvidia/version"); err == nil {
		if found := regexp.MustCompile(`\b\d+\.\d+\.\d+\b`).Find(raw); found != nil {
			version = string(found)
		}
	}
	if err := b.Do(func() error {
		m, err := newMeter(b)
		if err != nil {
			return err
		}
		for _, c := range timings() {
			if !filter.MatchString(c.suite+"/"+c.name) || c.kvBytes()>>20 > *measureLimit {
				continue
			}
			floor, err := m.floor(c.bytesRead())
			if err != nil {
				return err
			}
			for _, tuning := range strings.Split(*measureTuning, ",") {
				{
					r, err := m.time(c, tuning)
					if err != nil {
						return fmt.Errorf("%s/%s: %w", c.suite, c.name, err)
					}
					r.Floor, r.Ceiling = floor, float64(r.KVBytes)/floor
					r.Share = floor / r.Seconds
					r.Device, r.Driver, r.Commit = b.name, version, *measureCommit
					r.Command = "go test ./internal/cuda -run TestMeasure -measure FILE"
					line, err := json.Marshal(r)
					if err != nil {
						return err
					}
					if _, err := fmt.Fprintf(out, "%s\n", line); err != nil {
						return err
					}
					fmt.Printf("%-10s %-26s %-8s splits %3d  %8.2f us  floor %8.2f  ratio %.3f  min %8.2f  %.2f TB/s\n",
						r.Suite, r.Case, r.Tuning, r.Splits, r.Seconds*1e6, floor*1e6, r.Seconds/floor, r.Least*1e6, r.Rate/1e12)
				}
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func (c timing) lengths() []int {
	if len(c.lens) == c.batch {
		return c.lens
	}
	return slices.Repeat(c.lens, c.batch)
}

func (c timing) tokens() (n int) {
	for _, l := range c.lengths() {
		n += l
	}
	return n
}

func (c timing) kvBytes() int { return c.tokens() * c.hkv * c.dim * 2 * c.dtype.Bits() / 8 }

// bytesRead leaves out what the window hides.
func (c timing) bytesRead() int {
	if c.window > 0 {
		return c.kvBytes() / c.tokens() * min(c.window, c.tokens())
	}
	return c.kvBytes()
}

// meter holds the memory that inputs lie in: one block, cut anew for each case.
type meter struct {
	b        *Backend
	pool     nv.Pointer
	poolSize int
	q, out   nv.Pointer
	start    *nv.Event
	end      *nv.Event
	read     *nv.Function
}

func newMeter(b *Backend) (*meter, error) {
	m := &meter{b: b, poolSize: min(9<<30, math.MaxInt)}
	var err error
	if m.pool, err = b.ctx.Alloc(m.poolSize); err != nil {
		return nil, err
	}
	if err := m.fillPool(); err != nil {
		return nil, err
	}
	const rows = 1 << 16
	var errs [5]error
	m.q, errs[0] = b.ctx.Alloc(rows * 256 * 4)
	m.out, errs[1] = b.ctx.Alloc(rows * 256 * 4)
	m.start, errs[2] = b.ctx.NewEvent()
	m.end, errs[3] = b.ctx.NewEvent()
	m.read, errs[4] = b.module.Function("read_floor")
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(1, 1))
	q := make([]float32, rows*8)
	for i := range q {
		q[i] = float32(rng.NormFloat64())
	}
	return m, nv.Upload(b.stream, m.q, q)
}

// fillPool writes numbers near 1 that are bf16 and f16 alike in sign and size.
func (m *meter) fillPool() error {
	rng := rand.New(rand.NewPCG(2, 2))
	seed := make([]uint16, 8<<20)
	for i := range seed {
		seed[i] = uint16(rng.Uint32())&0x83ff | 0x3c00
	}
	bytes := len(seed) * 2
	if err := nv.Upload(m.b.stream, m.pool, seed); err != nil {
		return err
	}
	for done := bytes; done < m.poolSize; done *= 2 {
		if err := m.b.stream.Copy(m.pool+nv.Pointer(done), m.pool, min(done, m.poolSize-done)); err != nil {
			return err
		}
	}
	return nil
}

// sets is how many copies of an input of the given size rotate.
func (m *meter) sets(bytes int) int {
	return max(1, min(m.poolSize/bytes, max(2, (beyondL2+bytes-1)/bytes)))
}

// median replays a graph of launches and returns the median and the least time
// of one, in seconds.
func (m *meter) median(launches int, launch func(i int) error) (float64, float64, error) {
	s := m.b.stream
	g, err := s.Capture(func() error {
		for i := range launches {
			if err := launch(i); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, 0, err
	}
	var times []float64
	for total := 0.0; len(times) < 5 || total < 0.03 && len(times) < 60; {
		if err := errors.Join(m.start.Record(s), g.Launch(s), m.end.Record(s), m.end.Synchronize()); err != nil {
			return 0, 0, err
		}
		ms, err := m.end.Since(m.start)
		if err != nil {
			return 0, 0, err
		}
		total += float64(ms) / 1e3
		times = append(times, float64(ms)/1e3/float64(launches))
	}
	times = times[1:] // the first warms up
	slices.Sort(times)
	return times[len(times)/2], times[0], g.Destroy()
}

// launchesFor is how many launches a graph holds: some ms of work, every set at
// least once.
func launchesFor(bytes, sets int) int {
	n := max(4, min(200, int(2e-3*4e12/float64(bytes))))
	return (n + sets - 1) / sets * sets
}

// floor is the time of a bare read of that many bytes, the best of some grids.
func (m *meter) floor(bytes int) (float64, error) {
	best := 0.0
	sets := m.sets(bytes)
	for _, perSM := range []int{1, 2, 4} {
		for _, threads := range []int{256, 512} {
			seconds, _, err := m.median(launchesFor(bytes, sets), func(i int) error {
				p := struct {
					data   nv.Pointer
					chunks int64
					sink   nv.Pointer
				}{m.pool + nv.Pointer(i%sets*bytes), int64(bytes / 16), m.out}
				return m.read.Launch(m.b.stream, nv.Launch{
					Grid:  nv.Dim3{X: uint32(perSM * m.b.multiprocessors), Y: 1, Z: 1},
					Block: nv.Dim3{X: uint32(threads), Y: 1, Z: 1},
				}, unsafe.Pointer(&p))
			})
			if err != nil {
				return 0, err
			}
			if best == 0 || seconds < best {
				best = seconds
			}
		}
	}
	return best, nil
}

// time times one case.
func (m *meter) time(c timing, tuned string) (measured, error) {
	var warps, kib, splits int
	if _, err := fmt.Sscanf(tuned, "%d:%d:%d", &warps, &kib, &splits); err != nil {
		return measured{}, err
	}
	m.b.tuning = tuningFor(m.b.sharedLimit)
	if warps > 0 {
		m.b.tuning = tuning{warps: warps, sharedBytes: min(m.b.sharedLimit, kib<<10)}
	}
	clear(m.b.kernels)
	s, sc, err := m.step(c, splits)
	if err != nil {
		return measured{}, err
	}
	defer func() { err = errors.Join(err, s.free()) }()
	half, bytes := c.kvBytes()/2, c.kvBytes()
	sets := m.sets(bytes)
	seconds, least, err := m.median(launchesFor(c.bytesRead(), sets), func(i int) error {
		bufs := Buffers{K: sc.K, V: sc.V, Q: m.q, Out: m.out}
		bufs.K.Data = m.pool + nv.Pointer(i%sets*bytes)
		bufs.V.Data = bufs.K.Data + nv.Pointer(half)
		return s.Launch(m.b.stream, bufs)
	})
	return measured{
		Suite: c.suite, Case: c.name, Backend: "cuda", Impl: "flashdec", Batch: c.batch, QHeads: c.hq, KVHeads: c.hkv,
		KeyDim: c.dim, ValueDim: c.dim, Len: c.lens[0], QLen: 1, DType: c.dtype.String(), PageSize: c.pageSize,
		Splits: sc.Plan.Units[0].NumSplits, Seconds: seconds, Least: least,
		KVBytes: c.bytesRead(), Rate: float64(c.bytesRead()) / seconds, GPUs: 1,
		Tuning: fmt.Sprintf("%d:%d", s.kernel.warps, s.kernel.stages),
	}, err
}

// step makes the case's step: pages in random order, HND.
func (m *meter) step(c timing, splits int) (*Step, StepConfig, error) {
	shape := attn.Shape{NumHeads: c.hq, NumKVHeads: c.hkv, KeyDim: c.dim, ValueDim: c.dim}
	opt := &attn.Options{Window: c.window}
	page := c.pageSize
	if page == 0 {
		page = slices.Max(c.lens)
	}
	p := Plane{Type: c.dtype, PageStride: c.hkv * page * c.dim, HeadStride: page * c.dim, SlotStride: c.dim, Data: m.pool}
	cfg := plan.Config{NumKVHeads: c.hkv, GroupSize: shape.GroupSize(), Window: c.window, Width: m.b.Info().Width, Invariant: c.invariant, NumSplits: splits}
	var tables []kv.Table
	pages := rand.New(rand.NewPCG(3, 3)).Perm(c.tokens() / page)
	for _, n := range c.lengths() {
		cfg.Seqs = append(cfg.Seqs, plan.Seq{Len: n, NumQueries: 1})
		table := kv.Table{Len: n}
		for range n / page {
			table.Pages = append(table.Pages, kv.PageID(pages[0]))
			pages = pages[1:]
		}
		tables = append(tables, table)
	}
	pl, err := plan.New(cfg)
	if err != nil {
		return nil, StepConfig{}, err
	}
	sc := StepConfig{Shape: shape, Options: opt, Plan: pl, Seqs: tables, PageSize: page, K: p, V: p}
	s, err := m.b.newStep(sc)
	return s, sc, err
}
