package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/flashdec/flashdec/internal/timeline"
	"github.com/flashdec/flashdec/internal/whole"
)

type traceCmd struct {
	File          string   `arg:"" optional:"" help:"A .safetensors or .npz file with q, k and v. Without it, --lens makes a step up."`
	Lens          string   `help:"Keys of each sequence of a made-up step: 131072,16x63 is one of 131072 and 63 of 16." placeholder:"LIST"`
	QHeads        int      `help:"Query heads of a made-up step, a multiple of the KV heads (default ${default})." default:"32" placeholder:"N"`
	KVHeads       int      `name:"kv-heads" help:"KV heads of a made-up step (default ${default})." default:"8" placeholder:"N"`
	HeadDim       int      `help:"Elements of a key and of a value of a made-up step (default ${default})." default:"128" placeholder:"N"`
	Window        int      `help:"How many of the newest keys a query of a made-up step sees. Without it, or with 0, all." placeholder:"N"`
	Out           []string `short:"o" sep:"none" help:"Write a picture to FILE.svg, or trace events for Perfetto to FILE.json. May be given twice." placeholder:"FILE"`
	Splits        int      `help:"Cut every sequence into N splits, as far as it has keys. Without it, or with 0, the plan chooses." placeholder:"N"`
	CompareSplits int      `help:"Beside it, show the same step cut into N splits (default ${default}); 0 shows nothing beside it." default:"1" placeholder:"N"`
	Rounds        int      `help:"How often each is decoded (default ${default}), in turn; the median is shown." default:"9" placeholder:"N"`
	MB            int      `name:"mb" help:"The most MiB of keys and values that a made-up step may take (default ${default})." default:"4096" placeholder:"N"`
	engineFlags
	tunedFlag
	JSON bool `name:"json" help:"Print one JSON object."`
}

func (*traceCmd) Help() string {
	return `Without splits one processor computes a long sequence and the others wait; with
splits all end together. This shows it, from decodes that really ran. On a GPU, a
processor is one of its SMs, which may compute several items at a time.

Nothing is shown beside where the plan cuts nothing: it has enough sequences and KV
heads for all workers then. Where there is too little work to wake a worker, that
is told.

Examples: one sequence and one KV head, which no second worker can help with unless
it is cut; a step as a picture, where a second -o trace.json would write events for
Perfetto (https://ui.perfetto.dev); a GPU; and a file's step, a small one:

    flashdec trace --lens 131072 --q-heads 8 --kv-heads 1
    flashdec trace --lens 131072,4096x6 --q-heads 8 --kv-heads 1 -o trace.svg
    flashdec trace --backend cuda --lens 65536 -o trace.svg
    flashdec trace testdata/real/layer19.safetensors
`
}

// Validate is called by kong once the flags are read.
func (cmd *traceCmd) Validate() error {
	switch {
	case (cmd.File == "") == (cmd.Lens == ""):
		return errors.New("want either a file or --lens")
	case cmd.Splits < 0:
		return fmt.Errorf("--splits is %d, want at least 1, or 0 to let the plan choose", cmd.Splits)
	case cmd.CompareSplits < 0:
		return fmt.Errorf("--compare-splits is %d, want at least 1, or 0 for nothing", cmd.CompareSplits)
	case cmd.Rounds < 1 || cmd.Rounds > 1000:
		return fmt.Errorf("--rounds is %d, want 1 to 1000", cmd.Rounds)
	case cmd.MB < 1 || cmd.MB > 1<<20:
		return fmt.Errorf("--mb is %d, want 1 to %d", cmd.MB, 1<<20)
	}
	return cmd.engineFlags.Validate()
}

// AfterApply is called by kong once the command line is read. A file's step is not
// made up.
func (cmd *traceCmd) AfterApply(given *kong.Context) error {
	if cmd.File == "" {
		return nil
	}
	if flag := givenFlag(given, "q-heads", "kv-heads", "head-dim", "window", "mb"); flag != "" {
		return fmt.Errorf("--%s is for a made-up step, --lens, but a FILE is given", flag)
	}
	return nil
}

func (cmd *traceCmd) Run(ctx context.Context, t *terminal) (err error) {
	for i, path := range cmd.Out {
		if slices.Contains(cmd.Out[:i], path) {
			return fmt.Errorf("%s: named twice as output", quotePath(path))
		}
		if err := checkOutput(path, cmd.File, ".svg", ".json"); err != nil {
			return err
		}
	}
	s, err := cmd.step(ctx, cmd.tuner(t))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	decodes, err := cmd.decodes(s)
	if err != nil {
		return err
	}
	if err := s.measure(ctx, t, decodes, cmd.Rounds); err != nil {
		return err
	}
	r := cmd.report(s, decodes)
	for i, path := range cmd.Out {
		if slices.Contains(cmd.Out[:i], path) {
			return fmt.Errorf("%s: named twice as output", quotePath(path))
		}
		if err := r.write(path); err != nil {
			return err
		}
	}
	if cmd.JSON {
		return t.emit(r)
	}
	r.print(t)
	return nil
}

// write writes the decodes in the format that the name asks for.
func (r *traceReport) write(path string) error {
	runs := make([]timeline.Run, len(r.Decodes))
	for i := range runs {
		runs[i] = r.Decodes[i].run
	}
	about := append([]string{r.Title}, r.notes()...)
	if strings.EqualFold(filepath.Ext(path), ".json") {
		return whole.Write(path, func(w io.Writer) error {
			return timeline.WriteEvents(w, runs, r.processor(), map[string]string{"step": strings.Join(about, "; ")})
		})
	}
	picture := timeline.Picture{Title: r.Title, Notes: r.notes(), Lane: r.processor(), Runs: runs}
	return whole.Write(path, picture.WriteSVG)
}
