package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/flashdec/flashdec/backend"
)

type runCmd struct {
	File   string `arg:"" help:"A .safetensors or .npz file with q, k and v."`
	Out    string `short:"o" help:"Write out and lse to this .safetensors or .npz file." placeholder:"FILE"`
	Splits int    `help:"Cut every sequence into N splits, as far as it has keys. Without it the plan chooses." placeholder:"N"`
	engineFlags
	JSON bool `name:"json" help:"Print one JSON object."`
}

func (*runCmd) Help() string {
	return `The file has q [sequences, query heads, queries, key dim], k and v [sequences, KV
heads, keys, dim], and may have lens, sinks, alibi_slopes, mask, out and lse;
its metadata may have scale, causal, window and softcap.

Example, the attention of a real model:

    flashdec run testdata/real/layer19.safetensors
`
}

// runReport is what run prints.
type runReport struct {
	File     string  `json:"file"`
	OK       bool    `json:"ok"`
	Backend  string  `json:"backend"`
	Device   string  `json:"device"`
	Kernel   string  `json:"kernel"`
	Threads  int     `json:"threads"`
	KVDType  string  `json:"kv_dtype"`
	PageSize int     `json:"page_size"` // 0: used in place
	KVBytes  int     `json:"kv_bytes"`  // as stored
	Splits   int     `json:"splits"`    // the most of any unit
	Units    int     `json:"units"`
	Items    int     `json:"items"`
	Reason   string  `json:"reason"`
	First    float64 `json:"seconds_first"` // the first time, with the file's pages still to be read
	Seconds  float64 `json:"seconds"`       // the second time
	distances
	Unconverted *float64    `json:"unconverted_err,omitempty"` // beside the direct softmax of the file's own k and v
	Output      string      `json:"output,omitempty"`
	Attention   []attention `json:"attention"`
}

func (cmd *runCmd) Run(ctx context.Context, t *terminal) (err error) {
	if cmd.Splits < 0 {
		return fmt.Errorf("--splits is %d, want at least 1, or 0 to let the plan choose", cmd.Splits)
	}
	c, err := openCase(cmd.File)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if cmd.Out != "" {
		if err := checkOutput(cmd.Out, cmd.File); err != nil {
			return err
		}
	}
	d, err := newDecoder(c, &cmd.engineFlags)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	r, err := cmd.compute(ctx, t, d)
	if err != nil {
		return err
	}
	if cmd.JSON {
		err = t.emit(r)
	} else {
		r.print(t, c)
	}
	if err == nil && !r.OK {
		err = errCheckFailed
	}
	return err
}

// compute decodes, writes the result away, and then judges it.
func (cmd *runCmd) compute(ctx context.Context, t *terminal, d *decoder) (*runReport, error) {
	got, err := d.decode(ctx, cmd.Splits, cmd.Invariant)
	if err != nil {
		return nil, err
	}
	first := got.seconds
	if err := d.again(ctx, got); err != nil {
		return nil, err
	}
	if cmd.Out != "" {
		if err := writeOutput(cmd.Out, d.c, got.Output); err != nil {
			return nil, err
		}
	}
	r := cmd.describe(d, got)
	r.First, r.Seconds, r.Output = first, got.seconds, cmd.Out
	return r, cmd.check(ctx, t, d, got, r)
}

func (cmd *runCmd) describe(d *decoder, got *decoded) *runReport {
	info, p := d.engine.Info(), got.step.Plan()
	return &runReport{
		File: cmd.File, Backend: info.Name, Device: info.Device, Kernel: info.Kernel, Threads: threadsOf(info, cmd.threads()),
		KVDType: d.cache.types(), PageSize: d.cache.pageSize, KVBytes: d.cache.bytes(d.c),
		Splits: p.MaxSplits(), Units: len(p.Units), Items: len(p.Items), Reason: p.Reason,
	}
}

// threadsOf is the processor threads that a backend computes on; others than the
// CPU use none to speak of.
func threadsOf(info backend.Info, threads int) int {
	if info.Name == "cpu" {
		return info.Width
	}
	return threads
}

// check compares the result with the direct softmax, and with what else there is.
func (cmd *runCmd) check(ctx context.Context, t *terminal, d *decoder, got *decoded, r *runReport) error {
	c, passes := d.c, 1
	if d.cache.lossy {
		passes = 2
	}
	bar := t.bar(passes*c.seqs*c.shape.NumKVHeads, "direct softmax")
	defer bar.done()
	j := &judge{c: c, from: d.cache.source(c), threads: cmd.threads(), lossy: d.cache.lossy, step: bar.step}
	judged, err := j.judge(ctx, got.Output)
	if err != nil {
		return err
	}
	r.OK, r.distances = judged.ok(), judged.distances()
	if d.cache.lossy {
		original := &judge{c: c, from: c.fromFile, threads: cmd.threads(), lossy: true, step: bar.step}
		beside, err := original.judge(ctx, got.Output)
		if err != nil {
			return err
		}
		r.Unconverted = &beside.direct.Err
	}
	r.Attention, err = c.mostAttended(ctx, got.Output, j.from, cmd.threads())
	return err
}

func (r *runReport) print(t *terminal, c *decodeCase) {
	t.printf("%s\n\n", c.title())
	device := r.Device
	if device != "" {
		device = ", " + device
	}
	t.printf("ran     %s%s, %s, %s kernels\n", r.Backend, device, count(r.Threads, "thread"), r.Kernel)
	t.printf("cache   %s\n", r.cacheLine())
	t.printf("splits  %s\n", fold(r.Reason, 8))
	t.printf("time    %s, %s of keys and values a second (%s the first time)\n",
		duration(r.Seconds), byteCount(int(float64(r.KVBytes)/max(r.Seconds, 1e-9))), duration(r.First))
	r.distances.print(t)
	if r.Unconverted != nil {
		t.printf("stored  %.2g from what the file's own k and v give: the price of %s\n", *r.Unconverted, r.KVDType)
	}
	if r.Output != "" {
		t.printf("wrote   out and lse to %s\n", r.Output)
	}
	printAttention(t, c, r.Attention)
}

func (r *runReport) cacheLine() string {
	where := fmt.Sprintf("copied into pages of %s", count(r.PageSize, "key"))
	if r.PageSize == 0 {
		where = "used in place"
	}
	return fmt.Sprintf("%s %s, %s", byteCount(r.KVBytes), r.KVDType, where)
}
