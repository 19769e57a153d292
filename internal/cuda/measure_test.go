package cuda

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/internal/nv"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/plan"
)

var (
	measureOut    = flag.String("measure", "", "time the suites and write JSON lines to this file")
	measureCases  = flag.String("measure-cases", ".", "regular expression of the cases to time, suite/name")
	measureTuning = flag.String("measure-tunings", "0:0:0:0", "geometries to time, warps:KiB:splits:keys a split, 0 for what the backend chooses, separated by commas")
	measureCosts  = flag.String("measure-costs", "", "costs to plan with, one after the other, processors that saturate the memory:keys a merge, separated by commas; empty for the backend's")
	measureCommit = flag.String("measure-commit", "", "commit to record")
	measureTrace  = flag.Bool("measure-trace", false, "print where blocks spend their time, by the traced build")
	measureLens   = flag.String("measure-lens", "16384,65536,131072,524288", "keys of the cases of the suite types, separated by commas")
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
	Apart    float64 `json:"seconds_apart"` // where no launch starts before the one ahead has ended
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

// TestMeasure times decode steps by the replay of a CUDA graph in which many
// launches follow each other over rotating inputs, and a bare read of the same
// bytes the same way. It runs with -measure only.
func TestMeasure(t *testing.T) {
	if *measureOut == "" {
		t.Skip("times on request: -measure FILE")
	}
	filter := regexp.MustCompile(*measureCases)
	b, err := openImage()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
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
		overlap := b.overlap
		for _, c := range timings() {
			if !filter.MatchString(c.suite+"/"+c.name) || c.kvBytes()>>20 > *measureLimit {
				continue
			}
			read := c.bytesRead()
			floor, _, err := times(m.Floor(m.pool, read, read, m.sets(read)))
			if err != nil {
				return err
			}
			for i, tuning := range tunings() {
				if err := setCosts(b, i); err != nil {
					return err
				}
				r, err := m.time(c, tuning)
				if err != nil {
					return fmt.Errorf("%s/%s: %w", c.suite, c.name, err)
				}
				b.overlap = false
				apart, err := m.time(c, tuning)
				b.overlap = overlap
				if err != nil {
					return fmt.Errorf("%s/%s: %w", c.suite, c.name, err)
				}
				r.Apart = apart.Seconds
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
				fmt.Printf("%-9s %-24s %-12s %v %-4s splits %3d  %8.2f us  apart %8.2f  floor %8.2f  ratio %.3f  %.2f TB/s\n",
					r.Suite, r.Case, tuning, b.costs, r.Tuning, r.Splits, r.Seconds*1e6, r.Apart*1e6, floor*1e6, r.Seconds/floor, r.Rate/1e12)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// tunings are the geometries to time; each of them with the first costs, then the
// chosen one with the others.
func tunings() []string {
	list := strings.Split(*measureTuning, ",")
	for range strings.Count(*measureCosts, ",") {
		list = append(list, "0:0:0:0")
	}
	return list
}

// setCosts sets those that the i-th of the tunings is timed with.
func setCosts(b *Backend, i int) error {
	if *measureCosts == "" {
		return nil
	}
	list := strings.Split(*measureCosts, ",")
	at := max(0, i-strings.Count(*measureTuning, ","))
	_, err := fmt.Sscanf(list[at], "%d:%d", &b.costs.saturating, &b.costs.mergeKeys)
	return err
}

// time times one case.
func (m *meter) time(c timing, tuned string) (measured, error) {
	var warps, kib, splits, keys int
	if _, err := fmt.Sscanf(tuned, "%d:%d:%d:%d", &warps, &kib, &splits, &keys); err != nil {
		return measured{}, err
	}
	m.b.tuning = tuningFor(m.b.sharedLimit)
	if warps > 0 {
		m.b.tuning = tuning{warps: warps, sharedBytes: min(m.b.sharedLimit, kib<<10)}
	}
	clear(m.b.kernels)
	s, sc, err := m.step(c, splits, keys)
	if err != nil {
		return measured{}, err
	}
	defer func() { err = errors.Join(err, s.free()) }()
	half, bytes := c.kvBytes()/2, c.kvBytes()
	sets := m.sets(bytes)
	launch := func(s *Step, stream *nv.Stream, i int) error {
		bufs := Buffers{K: sc.K, V: sc.V, Q: m.q, Out: m.out}
		bufs.K.Data = m.pool + nv.Pointer(i%sets*bytes)
		bufs.V.Data = bufs.K.Data + nv.Pointer(half)
		return s.Launch(stream, bufs)
	}
	seconds, least, err := times(m.Capture(Launches(c.bytesRead(), sets), func(stream *nv.Stream, i int) error { return launch(s, stream, i) }))
	if err == nil && *measureTrace {
		err = m.trace(sc, launch)
	}
	return measured{
		Suite: c.suite, Case: c.name, Backend: "cuda", Impl: "flashdec", Batch: c.batch, QHeads: c.hq, KVHeads: c.hkv,
		KeyDim: c.dim, ValueDim: c.dim, Len: c.lens[0], QLen: 1, DType: c.dtype.String(), PageSize: c.pageSize,
		Splits: sc.Plan.Units[0].NumSplits, Seconds: seconds, Least: least,
		KVBytes: c.bytesRead(), Rate: float64(c.bytesRead()) / seconds, GPUs: 1,
		Tuning: fmt.Sprintf("%d:%d", s.kernel.warps, s.kernel.stages),
	}, err
}

// step makes the case's step.
func (m *meter) step(c timing, splits, keys int) (*Step, StepConfig, error) {
	sc, err := m.config(c, splits, keys)
	if err != nil {
		return nil, sc, err
	}
	s, err := m.b.newStep(sc)
	return s, sc, err
}

// config is the case's: pages in random order, HND.
func (m *meter) config(c timing, splits, keys int) (StepConfig, error) {
	shape := attn.Shape{NumHeads: c.hq, NumKVHeads: c.hkv, KeyDim: c.dim, ValueDim: c.dim}
	opt := &attn.Options{Window: c.window}
	page := c.pageSize
	if page == 0 {
		page = slices.Max(c.lens)
	}
	p := Plane{Type: c.dtype, PageStride: c.hkv * page * c.dim, HeadStride: page * c.dim, SlotStride: c.dim, Data: m.pool}
	p.Scales = Scales{Kind: c.scales, Values: m.scales, PageStride: c.hkv * page, HeadStride: page, SlotStride: 1}
	v := p
	if c.scales == kv.ChannelScale {
		v.Scales.Kind = kv.TokenScale
	}
	info := m.b.Info()
	cfg := plan.Config{
		NumKVHeads: c.hkv, GroupSize: shape.GroupSize(), Window: c.window, Width: info.Width, Invariant: c.invariant,
		NumSplits: splits, MinKeysPerSplit: keys, StartKeys: info.StartKeys,
		Saturating: info.Saturating, SaturatingKeys: info.SaturatingKeys(shape, c.dtype.Bits()), MergeKeys: info.MergeKeys,
	}
	var tables []kv.Table
	pages := rand.New(rand.NewPCG(3, 3)).Perm(c.tokens() / page)
	if c.inOrder {
		slices.Sort(pages)
	}
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
		return StepConfig{}, err
	}
	pl.Config.NumSplits = 0 // geometry as of a chosen plan
	return StepConfig{Shape: shape, Options: opt, Plan: pl, Seqs: tables, PageSize: page, K: p, V: v}, nil
}
