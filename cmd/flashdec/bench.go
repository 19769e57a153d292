package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/internal/bench"
	"github.com/flashdec/flashdec/internal/cpu"
	"github.com/flashdec/flashdec/internal/simd"
	"github.com/flashdec/flashdec/kv"
)

type benchCmd struct {
	Suite   []string `help:"What to measure: all, or any of the suites above (default ${default})." enum:"all,${suites}" default:"types"`
	Backend string   `help:"Where to compute: ${enum}." enum:"auto,cpu" default:"auto"`
	Match   string   `help:"Only cases whose name contains TEXT." placeholder:"TEXT"`
	Threads int      `help:"Threads to compute and to read on. Without it, one and then all." placeholder:"N"`
	MB      int      `name:"mb" help:"Bytes of keys and values to lay cases out in, in MiB (default ${default}). Cases that need more are left out." default:"512"`
	Rounds  int      `help:"How often each is measured (default ${default}); the median counts." default:"9"`
	Quick   bool     `help:"A first look: at most 64 MiB and 3 rounds."`
	Peer    string   `help:"Measure another implementation in the same rounds, through a program (see bench/peers)." placeholder:"COMMAND"`
	tunedFlag
	JSON    bool   `name:"json" xor:"form" help:"Print one JSON object a line, a case and implementation each."`
	CSV     bool   `name:"csv" xor:"form" help:"Print comma-separated values."`
	Plot    string `help:"Draw the results: an .svg or .png file." placeholder:"FILE"`
	Compare string `help:"Tell what changed since a recorded --json, beyond the noise." placeholder:"FILE"`
}

func (*benchCmd) Help() string {
	text := &strings.Builder{}
	text.WriteString(`Four ways to compute a step are measured in turn, beside a bare read of the same
bytes by the same threads, the ceiling: flashdec, the same without splits
(unsplit), the direct softmax in float64 (direct), and a plain Go loop (plain).
The last two are slow, and get fewer keys and rounds: where that is so, the table
has the number of keys in place of a time, and GB/s is what compares. On two cores
the suite types takes some five minutes, with --quick about one, and all suites a
few times as long.

Suites:

`)
	for _, s := range bench.Suites {
		fmt.Fprintf(text, "    %-10s %s\n", s.Name, s.Help)
	}
	text.WriteString(`
Example:

    flashdec bench --suite pages --threads 2
`)
	return text.String()
}

func suiteNames() []string {
	var names []string
	for _, s := range bench.Suites {
		names = append(names, s.Name)
	}
	return names
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
	return checkPlot(cmd.Plot)
}

// bytes and rounds are what is measured on and how often.
func (cmd *benchCmd) bytes() int {
	if cmd.Quick {
		return min(cmd.MB, 64) << 20
	}
	return cmd.MB << 20
}

func (cmd *benchCmd) rounds() int {
	if cmd.Quick {
		return min(cmd.Rounds, 3)
	}
	return cmd.Rounds
}

// benchRun is one thing to measure: a suite's case with a number of threads.
type benchRun struct {
	suite   string
	c       bench.Case
	threads int
}

// runs are all that was asked for.
func (cmd *benchCmd) runs() ([]benchRun, error) {
	var runs []benchRun
	for _, s := range bench.Suites {
		if !slices.Contains(cmd.Suite, "all") && !slices.Contains(cmd.Suite, s.Name) {
			continue
		}
		for _, c := range s.Cases(cmd.bytes()) {
			if !strings.Contains(c.Name, cmd.Match) {
				continue
			}
			for _, threads := range cmd.threadCounts(s.Name) {
				runs = append(runs, benchRun{s.Name, c, threads})
			}
		}
	}
	if len(runs) == 0 {
		return nil, fmt.Errorf("no case of suite %s fits into %s and contains %q in its name: see --mb and --match",
			strings.Join(cmd.Suite, ", "), byteCount(cmd.bytes()), cmd.Match)
	}
	return runs, nil
}

// threadCounts are the numbers of threads to measure a suite with.
func (cmd *benchCmd) threadCounts(suite string) []int {
	all := runtime.GOMAXPROCS(0)
	switch {
	case cmd.Threads > 0:
		return []int{cmd.Threads}
	case suite != "threads":
		return slices.Compact([]int{1, all})
	}
	var counts []int
	for n := 1; n < all; n *= 2 {
		counts = append(counts, n)
	}
	return append(counts, all)
}

func (cmd *benchCmd) Run(ctx context.Context, t *terminal) error {
	runs, err := cmd.runs()
	if err != nil {
		return err
	}
	old, err := cmd.recorded()
	if err != nil {
		return err
	}
	report := &benchReport{cmd: cmd, t: t, tuner: cmd.tuner(t), old: old}
	err = cmd.measureAll(ctx, runs, report)
	// What is done is reported, interrupted or not.
	return errors.Join(err, report.end())
}

// recorded are the rows to compare with.
func (cmd *benchCmd) recorded() (rows []bench.Row, err error) {
	if cmd.Compare == "" {
		return nil, nil
	}
	f, err := os.Open(cmd.Compare)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if rows, err = bench.ReadRows(f); err != nil {
		return nil, fmt.Errorf("%s: %w", cmd.Compare, err)
	}
	return rows, nil
}

func (cmd *benchCmd) measureAll(ctx context.Context, runs []benchRun, report *benchReport) (err error) {
	a, err := bench.NewArena(cmd.bytes())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	p, err := startPeer(cmd.Peer, report.t.errs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	bar := report.t.bar(len(runs), "measuring")
	defer bar.done()
	for _, r := range runs {
		if err := cmd.measureOne(ctx, r, a, p, report); err != nil {
			return fmt.Errorf("suite %s, %s: %w", r.suite, r.c.Name, err)
		}
		bar.step()
	}
	return nil
}

func (cmd *benchCmd) measureOne(ctx context.Context, r benchRun, a *bench.Arena, p *peer, report *benchReport) (err error) {
	eng, info, found, err := openAt(&r.c, r.threads, report.tuner)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	list, err := bench.Impls(ctx, &r.c, a, r.threads, eng)
	if err != nil {
		return err
	}
	other, err := p.impl(ctx, &r.c, r.threads)
	if err != nil {
		return err
	}
	if other != nil {
		list = append(list, other)
	}
	if err := bench.Measure(ctx, list, cmd.rounds()); err != nil {
		return err
	}
	for _, im := range list[1:] {
		row := im.Row(r.c.Name, r.threads, info)
		if im.Splits > 0 { // one of this project's ways
			row.Tuned = found.tells()
		}
		if err := report.add(r.suite, row); err != nil {
			return err
		}
	}
	return nil
}

// openAt opens an engine on the CPU whose kernels are of a case's level, "" for the
// best, with what was found for it. It says what the engine is at that level:
// later, the engine no longer knows.
func openAt(c *bench.Case, threads int, u *tuner) (eng *flashdec.Engine, info backend.Info, found tuned, err error) {
	if c.Level != "" {
		restore, err := simd.SetLevel(c.Level)
		if err != nil {
			return nil, info, found, err
		}
		defer restore()
	}
	info = cpu.New(cpu.Options{Threads: threads}).Info()
	found = u.find(info, c.Dim, c.Dim, c.Heads/c.KVHeads, [2]kv.DType{c.DType, c.DType})
	_, eng, err = found.open(threads)
	return eng, info, found, err
}
