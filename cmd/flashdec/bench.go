package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/internal/simd"
	"github.com/flashdec/flashdec/kv"
)

type benchCmd struct {
	Suite   string `help:"What to measure: ${enum}." enum:"${suites}" default:"types"`
	Backend string `help:"Where to compute: ${enum}." enum:"${backends}" default:"auto"`
	Match   string `help:"Only cases whose name contains TEXT." placeholder:"TEXT"`
	Threads int    `help:"Threads to compute and to read on. Without it, one and then all." placeholder:"N"`
	MB      int    `name:"mb" help:"Bytes of keys and values to lay cases out in, in MiB." default:"512"`
	Rounds  int    `help:"How often each is measured; the median counts." default:"7"`
	JSON    bool   `name:"json" xor:"form" help:"Print one JSON object a line, a case and implementation each."`
	CSV     bool   `name:"csv" xor:"form" help:"Print comma-separated values."`
}

func (*benchCmd) Help() string {
	return `Four ways to compute a step are measured in turn, beside a bare read of the same
bytes by the same threads, the ceiling: flashdec, the same without splits
(unsplit), the direct softmax in float64 (direct), and a plain Go loop (plain).
The last two are slow, and get at most 8192 keys; compare their rates.

Example:

    flashdec bench --suite pages --threads 2
`
}

// Validate is called by kong once the flags are read.
func (cmd *benchCmd) Validate() error {
	switch {
	case cmd.Threads < 0 || cmd.Threads > maxThreads:
		return fmt.Errorf("--threads is %d, want 1 to %d, or 0 for one and all", cmd.Threads, maxThreads)
	case cmd.MB < 1 || cmd.MB > 1<<20:
		return fmt.Errorf("--mb is %d, want 1 to %d", cmd.MB, 1<<20)
	case cmd.Rounds < 1 || cmd.Rounds > 1000:
		return fmt.Errorf("--rounds is %d, want 1 to 1000", cmd.Rounds)
	}
	return nil
}

// benchRow is what one implementation did on one case.
type benchRow struct {
	Suite    string  `json:"suite"`
	Case     string  `json:"case"`
	Backend  string  `json:"backend"`
	Kernel   string  `json:"kernel"`
	Impl     string  `json:"impl"`
	Batch    int     `json:"batch"`
	QHeads   int     `json:"q_heads"`
	KVHeads  int     `json:"kv_heads"`
	KeyDim   int     `json:"key_dim"`
	ValueDim int     `json:"value_dim"`
	Len      int     `json:"len"`
	QLen     int     `json:"q_len"`
	KVDType  string  `json:"kv_dtype"`
	PageSize int     `json:"page_size"`
	Threads  int     `json:"threads"`
	Splits   int     `json:"splits"`
	Seconds  float64 `json:"seconds"`
	Min      float64 `json:"seconds_min"`
	KVBytes  int     `json:"kv_bytes"`
	Rate     float64 `json:"bytes_per_second"`
	Ceiling  float64 `json:"ceiling_bytes_per_second"`
	Share    float64 `json:"share"`
	GPUs     int     `json:"gpus"`
	Device   string  `json:"device"`
	Commit   string  `json:"commit"`
}

func (cmd *benchCmd) Run(ctx context.Context, t *terminal) error {
	cases := suites[cmd.Suite](cmd.MB << 20)
	cases = slices.DeleteFunc(cases, func(c benchCase) bool { return !strings.Contains(c.name, cmd.Match) })
	if len(cases) == 0 {
		return fmt.Errorf("--match is %q, but no case of suite %s contains it", cmd.Match, cmd.Suite)
	}
	report := &benchReport{cmd: cmd, t: t}
	err := cmd.measureAll(ctx, cases, report)
	if endErr := report.end(); err == nil {
		err = endErr // what is done is printed, interrupted or not
	}
	return err
}

// threadCounts are the numbers of threads to measure with.
func (cmd *benchCmd) threadCounts() []int {
	if cmd.Threads > 0 {
		return []int{cmd.Threads}
	}
	return slices.Compact([]int{1, runtime.GOMAXPROCS(0)})
}

func (cmd *benchCmd) measureAll(ctx context.Context, cases []benchCase, report *benchReport) (err error) {
	a, err := newArena(cmd.MB << 20)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	bar := report.t.bar(len(cases)*len(cmd.threadCounts()), "measuring")
	defer bar.done()
	for i := range cases {
		if i == 0 || cases[i].dtype != cases[i-1].dtype {
			a.fill(benchElems[cases[i].dtype])
		}
		for _, threads := range cmd.threadCounts() {
			if err := cmd.measureOne(ctx, cases[i], a, threads, report); err != nil {
				return err
			}
			bar.step()
		}
	}
	return nil
}

// benchElems names the types as the kernels do.
var benchElems = map[kv.DType]simd.Elem{
	kv.F32: simd.F32, kv.F16: simd.F16, kv.BF16: simd.BF16, kv.I8: simd.I8,
	kv.F8E4M3: simd.E4M3, kv.F8E5M2: simd.E5M2, kv.I4: simd.I4,
}

func (cmd *benchCmd) measureOne(ctx context.Context, c benchCase, a *arena, threads int, report *benchReport) (err error) {
	b, err := openBackend(cmd.Backend, threads)
	if err != nil {
		return err
	}
	eng, err := flashdec.Open(flashdec.Options{Backend: b})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	list, err := impls(c, a, threads, eng)
	if err != nil {
		return err
	}
	if err := measure(ctx, list, cmd.Rounds); err != nil {
		return err
	}
	ceiling := float64(c.kvBytes()) / median(list[0].times)
	for _, im := range list[1:] {
		if err := report.add(cmd.row(c.name, im, threads, ceiling, eng.Info())); err != nil {
			return err
		}
	}
	return nil
}

func (cmd *benchCmd) row(name string, im *impl, threads int, ceiling float64, info backend.Info) benchRow {
	_, commit := version()
	seconds := median(im.times)
	rate := float64(im.step.kvBytes()) / seconds
	return benchRow{
		Suite: cmd.Suite, Case: name, Backend: info.Name, Kernel: info.Kernel, Impl: im.name,
		Batch: len(im.step.lens), QHeads: im.step.heads, KVHeads: im.step.kvHeads,
		KeyDim: im.step.dim, ValueDim: im.step.dim, Len: slices.Max(im.step.lens), QLen: im.step.queries,
		KVDType: im.step.dtype.String(), PageSize: im.step.pageSize, Threads: threads, Splits: im.plan,
		Seconds: seconds, Min: slices.Min(im.times), KVBytes: im.step.kvBytes(),
		Rate: rate, Ceiling: ceiling, Share: rate / ceiling, Device: info.Device, Commit: commit,
	}
}

// benchReport prints rows in the form that was asked for: JSON as they come, a
// table at the end.
type benchReport struct {
	cmd  *benchCmd
	t    *terminal
	rows []benchRow
}

func (r *benchReport) add(row benchRow) error {
	r.rows = append(r.rows, row)
	if r.cmd.JSON {
		return r.t.emit(row)
	}
	return nil
}

func (r *benchReport) end() error {
	switch {
	case r.cmd.JSON || len(r.rows) == 0:
		return nil
	case r.cmd.CSV:
		return r.csv()
	}
	last := r.rows[0]
	r.t.printf("%s, %s kernels, %s of keys and values at most\n\n", last.Device, last.Kernel, byteCount(r.cmd.MB<<20))
	table := newTable("case", "threads", "", "time", "GB/s", "of ceiling")
	for i, x := range r.rows {
		name, threads := x.Case, strconv.Itoa(x.Threads)
		if i > 0 && r.rows[i-1].Case == x.Case && r.rows[i-1].Threads == x.Threads {
			name, threads = "", ""
		}
		table.AppendRow(row(name, threads, x.Impl, duration(x.Seconds), fmt.Sprintf("%.2f", x.Rate/1e9), fmt.Sprintf("%.0f%% of %.1f", 100*x.Share, x.Ceiling/1e9)))
	}
	r.t.printf("%s\n", render(table))
	return nil
}

func (r *benchReport) csv() error {
	w := csv.NewWriter(r.t.out)
	records := [][]string{{"suite", "case", "backend", "kernel", "impl", "threads", "splits", "seconds", "seconds_min", "kv_bytes", "bytes_per_second", "ceiling_bytes_per_second", "share"}}
	for _, x := range r.rows {
		records = append(records, []string{
			x.Suite, x.Case, x.Backend, x.Kernel, x.Impl, strconv.Itoa(x.Threads), strconv.Itoa(x.Splits),
			fmt.Sprint(x.Seconds), fmt.Sprint(x.Min), strconv.Itoa(x.KVBytes), fmt.Sprint(x.Rate), fmt.Sprint(x.Ceiling), fmt.Sprint(x.Share),
		})
	}
	return w.WriteAll(records)
}
