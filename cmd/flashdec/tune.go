package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/internal/cpu"
	"github.com/flashdec/flashdec/internal/gpubench"
	"github.com/flashdec/flashdec/internal/tune"
	"github.com/flashdec/flashdec/kv"
)

type tuneCmd struct {
	HeadDim []int    `help:"Elements of a key and of a value (default ${default})." default:"128" placeholder:"N,…"`
	Group   []int    `help:"Query heads a KV head (default ${default})." default:"1,4,8" placeholder:"N,…"`
	KVDType []string `name:"kv-dtype" help:"Types of keys and values; what is found holds for all types of that size (default ${default})." default:"f16" placeholder:"T,…"`
	Backend string   `help:"What to measure: ${enum}." enum:"auto,cpu,cuda" default:"auto"`
	Threads int      `help:"Processor threads to compute on. Without it, or with 0, GOMAXPROCS (here ${threads})." placeholder:"N"`
	Seconds float64  `help:"How long to measure, all classes together (default ${default}); making caches ready comes on top." default:"30" placeholder:"N"`
	Show    bool     `xor:"what" help:"Show what has been found, and measure nothing."`
	Forget  bool     `xor:"what" help:"Remove what has been found."`
	JSON    bool     `name:"json" help:"Print one JSON object a class."`
}

func (*tuneCmd) Help() string {
	return `Two constants differ from machine to machine: the fewest keys that a split is
worth, and the work that one more thread is worth waking for. They matter on steps of
a few thousand keys. They are measured for each combination of head dim, group and
type, and kept in the user's cache folder; run, plan, bench and trace then use them,
and say so, unless told --no-tuned. Of a GPU, where no thread sleeps, it is the first
constant alone. A choice that may be chance, since the machine was disturbed, is told
of on stderr.

Examples:

    flashdec tune --head-dim 64,128 --group 4
    flashdec tune --backend cuda
`
}

// maxClasses bounds what one call measures.
const maxClasses = 64

// Validate is called by kong once the flags are read.
func (cmd *tuneCmd) Validate() error {
	if cmd.Backend == "cuda" && cmd.Threads != 0 {
		return fmt.Errorf("--threads is %d, but only the CPU has threads to choose", cmd.Threads)
	}
	if cmd.Threads < 0 || cmd.Threads > maxThreads {
		return fmt.Errorf("--threads is %d, want 1 to %d, or 0 for GOMAXPROCS", cmd.Threads, maxThreads)
	}
	if !(cmd.Seconds >= 0.1 && cmd.Seconds <= 3600) { // in less, not one round of all candidates
		return fmt.Errorf("--seconds is %v, want 0.1 to 3600", cmd.Seconds)
	}
	_, err := cmd.classes()
	return err
}

// classes are all combinations that the flags name.
func (cmd *tuneCmd) classes() ([]tune.Class, error) {
	if n := len(cmd.HeadDim) * len(cmd.Group) * len(cmd.KVDType); n < 1 || n > maxClasses {
		return nil, fmt.Errorf("--head-dim, --group and --kv-dtype make %d classes, want 1 to %d", n, maxClasses)
	}
	var list []tune.Class
	for _, name := range cmd.KVDType {
		dtype, err := kv.ParseDType(name)
		if err != nil {
			return nil, fmt.Errorf("--kv-dtype: %w", err)
		}
		for _, dim := range cmd.HeadDim {
			for _, group := range cmd.Group {
				c := tune.Class{Dim: dim, Group: group, DType: dtype}
				if err := checkClass(c); err != nil {
					return nil, err
				}
				list = append(list, c)
			}
		}
	}
	return list, nil
}

// Bounds of what is measured: larger steps would take long, and need no tuning.
const (
	maxTuneDim   = 1024
	maxTuneGroup = 128
)

func checkClass(c tune.Class) error {
	if c.Dim < 1 || c.Dim > maxTuneDim {
		return fmt.Errorf("--head-dim is %d, want 1 to %d", c.Dim, maxTuneDim)
	}
	if c.Group < 1 || c.Group > maxTuneGroup {
		return fmt.Errorf("--group is %d, want 1 to %d", c.Group, maxTuneGroup)
	}
	if c.Dim*c.DType.Bits()%8 != 0 {
		return fmt.Errorf("--head-dim is %d, want whole bytes of %s", c.Dim, c.DType)
	}
	shape := attn.Shape{NumHeads: c.Group, NumKVHeads: 1, KeyDim: c.Dim, ValueDim: c.Dim}
	return shape.Validate()
}

func (cmd *tuneCmd) Run(ctx context.Context, t *terminal) error {
	dir, err := tune.Dir()
	if err != nil {
		return fmt.Errorf("no folder for what is found: %w", err)
	}
	switch {
	case cmd.Show:
		return cmd.show(t, dir)
	case cmd.Forget:
		return cmd.forget(t, dir)
	}
	return cmd.measure(ctx, t, dir)
}

// measure measures the classes one after the other. Each is kept when it is done; one that cannot be is the last, and is
// printed all the same.
func (cmd *tuneCmd) measure(ctx context.Context, t *terminal, dir string) (err error) {
	classes, err := cmd.classes()
	if err != nil {
		return err
	}
	measure, done, err := cmd.bed()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	budget := time.Duration(cmd.Seconds * float64(time.Second) / float64(len(classes)))
	const steps = 100
	bar := t.bar(steps*len(classes), "measuring")
	defer bar.done()
	var (
		found  []tune.Entry
		unkept error
	)
	for _, class := range classes {
		shown := 0
		e, err := measure(ctx, class, budget, func(part float64) {
			for ; shown < int(part*steps); shown++ {
				bar.step()
			}
		})
		if err != nil {
			return err
		}
		e.Tuned = time.Now().UTC().Format(time.DateOnly)
		found = append(found, e)
		cmd.tellUncertain(t, class, e)
		if cmd.JSON {
			if err := t.emit(e); err != nil {
				return err
			}
		}
		if unkept = tune.Save(dir, e); unkept != nil {
			break
		}
	}
	if !cmd.JSON {
		printTuned(t, found)
	}
	if unkept != nil {
		return fmt.Errorf("what was found cannot be kept: %w", unkept)
	}
	if !cmd.JSON {
		t.printf("\nkept in %s\n", quotePath(dir))
	}
	return nil
}

// measureClass is tune.Measure on a CPU or a GPU that is known.
type measureClass func(ctx context.Context, class tune.Class, budget time.Duration, tell func(float64)) (tune.Entry, error)

// bed is how to measure, and what to call when that is over.
func (cmd *tuneCmd) bed() (measure measureClass, done func() error, err error) {
	if cmd.Backend != "cuda" {
		threads := cpuThreads(cmd.Threads)
		return func(ctx context.Context, class tune.Class, budget time.Duration, tell func(float64)) (tune.Entry, error) {
			return tune.Measure(ctx, class, threads, budget, tell)
		}, func() error { return nil }, nil
	}
	gpu, err := gpubench.Open(tune.GPUBytes)
	if err != nil {
		return nil, nil, fmt.Errorf("backend cuda: %w", err)
	}
	return func(ctx context.Context, class tune.Class, budget time.Duration, tell func(float64)) (tune.Entry, error) {
		return tune.MeasureGPU(ctx, class, gpu, budget, tell)
	}, gpu.Close, nil
}

// cpuThreads is how many threads the CPU computes on.
func cpuThreads(threads int) int { return cpu.New(cpu.Options{Threads: threads}).Info().Width }

// show prints what is kept, and on stderr what cannot be used.
func (cmd *tuneCmd) show(t *terminal, dir string) error {
	entries, bad, err := tune.List(dir)
	if err != nil {
		return err
	}
	for _, err := range bad {
		fmt.Fprintf(t.errs, "flashdec: %s\n", oneLine(err))
	}
	if cmd.JSON {
		for _, e := range entries {
			err = errors.Join(err, t.emit(e))
		}
		return err
	}
	if len(entries) == 0 {
		t.printf("Nothing has been tuned; flashdec tune does.\n")
		return nil
	}
	printTuned(t, entries)
	return nil
}

func (cmd *tuneCmd) forget(t *terminal, dir string) error {
	n, err := tune.Forget(dir)
	if err != nil {
		return err
	}
	if cmd.JSON {
		return t.emit(map[string]int{"forgotten": n})
	}
	t.printf("forgot %s\n", count(n, "measurement"))
	return nil
}

// printTuned prints entries, a table a machine.
func printTuned(t *terminal, entries []tune.Entry) {
	for i := 0; i < len(entries); {
		first := entries[i]
		if i > 0 {
			t.printf("\n")
		}
		threads := count(first.Threads, "thread")
		if first.Backend != "cpu" {
			threads = count(first.Threads, "item") + " at once"
		}
		t.printf("%s\n", fold(fmt.Sprintf("%s: %s, %s, %s kernels", printable(first.Backend), printable(first.Device), threads, printable(first.Kernel)), 0))
		table := newTable("head dim", "group", "bits", "keys a split", "work a thread", "saves", "date")
		for ; i < len(entries) && sameMachine(entries[i], first); i++ {
			e := entries[i]
			dim := fmt.Sprint(e.KeyDim)
			if e.ValueDim != e.KeyDim {
				dim = fmt.Sprintf("%d/%d", e.KeyDim, e.ValueDim)
			}
			table.AppendRow(row(dim, e.Group, e.KVBits, orBuiltIn(e.MinKeysPerSplit), orBuiltIn(e.HelperWork), saves(e), e.Tuned))
		}
		t.printf("%s\n", render(table))
	}
	t.printf("\n%s\n", fold("A split has no fewer keys than told, and one more thread is woken for each so many multiply-adds of work; "+
		"saves is of the time that steps of a few thousand keys take with what is built in, ± what that may be off.", 0))
}

// saves is what an entry's constants save, and how sure that is.
func saves(e tune.Entry) string {
	if e.Noise == 0 { // nothing to choose from, or an entry that does not say
		return percent(e.Saved)
	}
	return fmt.Sprintf("%s ±%s", percent(e.Saved), percent(e.Noise))
}

// tellUncertain says that a choice may be chance, and what to do.
func (cmd *tuneCmd) tellUncertain(t *terminal, class tune.Class, e tune.Entry) {
	if !e.Uncertain() {
		return
	}
	chosen := "what is built in may not be best"
	if e.Saved > 0 {
		chosen = "what was chosen may save nothing"
	}
	fmt.Fprintf(t.errs, "flashdec: %v: uncertain, %s: rounds differed, so that what is saved may be off by %s; tune again while nothing else runs, or with more --seconds than %g\n",
		class, chosen, percent(e.Noise), cmd.Seconds)
}

func sameMachine(a, b tune.Entry) bool {
	return a.Device == b.Device && a.Backend == b.Backend && a.Kernel == b.Kernel && a.Threads == b.Threads
}

func orBuiltIn(n int) string {
	if n == 0 {
		return "built in"
	}
	return fmt.Sprint(n)
}
