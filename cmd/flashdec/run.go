package main

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/internal/bench"
	"github.com/flashdec/flashdec/internal/filemap"
)

type runCmd struct {
	File   string `arg:"" help:"A .safetensors or .npz file with q, k and v."`
	Out    string `short:"o" help:"Write out and lse to this .safetensors or .npz file." placeholder:"FILE"`
	Splits int    `help:"Cut every sequence into N splits, as far as it has keys. Without it, or with 0, the plan chooses." placeholder:"N"`
	engineFlags
	tunedFlag
	JSON bool `name:"json" help:"Print one JSON object."`
}

func (*runCmd) Help() string {
	return `The file's tensors are

    q             [sequences, query heads, queries, key dim]
    k             [sequences, KV heads, keys, key dim]
    v             [sequences, KV heads, keys, value dim]

and, where it likes,

    lens          [sequences] integers: the keys that each has, without it all
    sinks         [query heads]: a logit more in each softmax's denominator
    alibi_slopes  [query heads]: score += slope·(key − query position)
    mask          [1 or sequences, 1, queries, keys] u8 or bool: 1 is visible
    out           [sequences, query heads, queries, value dim]: to compare with
    lse           [sequences, query heads, queries], natural: to compare with

All but lens and mask are float32, float16, bfloat16 or float64. The newest query
stands at the newest key.

Rules are metadata. In safetensors each is text: "scale": "0.125", "causal": "true",
"window": "128", "softcap": "50"; in an .npz an array of one element each:
np.savez(f, q=q, k=k, v=v, scale=0.125, causal=True, window=128). Without a scale it
is 1/√(key dim); the other rules are off where they are not given.

Metadata may name what is shown, too: "name" and "text" stand above the report, and
"pieces", a JSON list of one string a key such as ["The", " cat"], puts the tokens'
text into the table of keys. A tensor or a key that nobody reads, such as a misspelt
one, is told of on stderr.

error, answer and stored are largest absolute differences over all elements that are
finite on both sides; the limit of out goes by the largest |v| (docs/NUMERICS.md).

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
	Threads  int     `json:"threads"` // of the processor that compute; 0 on a GPU
	Width    int     `json:"width"`   // items that run at once
	KVDType  string  `json:"kv_dtype"`
	PageSize int     `json:"page_size"` // 0: used in place
	KVBytes  int     `json:"kv_bytes"`  // as stored
	Steps    int     `json:"steps"`     // that the file was cut into, 1 but for many sequences or queries
	Splits   int     `json:"splits"`    // the most of any unit
	Units    int     `json:"units"`
	Items    int     `json:"items"`
	Rules    string  `json:"rules"` // that applied, in words
	Reason   string  `json:"reason"`
	Woken    int     `json:"threads_woken"`    // that the first step has work for; 0 on a GPU
	Asleep   string  `json:"asleep,omitempty"` // why threads sleep that would have had an item
	First    float64 `json:"seconds_first"`    // the first time, with the file's pages still to be read
	Seconds  float64 `json:"seconds"`          // after that: the median of some, where they are short
	Tuned    string  `json:"tuned,omitempty"`
	distances
	// Beside the direct softmax of the file's own k and v, where the cache rounds them: the price of its type.
	UnconvertedErr       *float64 `json:"unconverted_err,omitempty"`
	UnconvertedNonFinite *int     `json:"unconverted_nonfinite,omitempty"` // elements that are NaN or infinite in one alone
	unconverted          verdict
	Output               string      `json:"output,omitempty"`
	Attention            []attention `json:"attention"`
	NoAttention          string      `json:"attention_missing,omitempty"` // why there is none
}

func (cmd *runCmd) Run(ctx context.Context, t *terminal) (err error) {
	if cmd.Splits < 0 {
		return fmt.Errorf("--splits is %d, want at least 1, or 0 to let the plan choose", cmd.Splits)
	}
	c, err := openCase(ctx, cmd.File)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	defer filemap.Recover(&err, debug.SetPanicOnFault(true))
	c.warn(t)
	if cmd.Out != "" {
		if err := checkOutput(cmd.Out, cmd.File, ".safetensors", ".npz"); err != nil {
			return err
		}
	}
	d, err := newDecoder(ctx, c, &cmd.engineFlags)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	tuned, err := d.useTuned(cmd.tuner(t))
	if err != nil {
		return err
	}
	r, err := cmd.compute(ctx, t, d)
	if err != nil {
		return err
	}
	r.Tuned = tuned.tells()
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

// compute decodes, judges the results, and writes them away, a chunk after the other.
func (cmd *runCmd) compute(ctx context.Context, t *terminal, d *decoder) (*runReport, error) {
	k := cmd.newCheck(t, d)
	defer k.bar.done()
	var (
		got          decoded
		first, again work
		file         *output
	)
	if cmd.Out != "" {
		file = newOutput(d.c)
		if err := checkRoom(cmd.Out, file.bytes()); err != nil {
			return nil, err
		}
		debug.SetGCPercent(garbagePercent(d.living + file.bytes()))
	}
	for _, chunk := range d.chunks {
		d.take(&got, chunk)
		decode := func() (float64, error) {
			err := d.decode(ctx, &got, cmd.Splits, cmd.Invariant)
			return got.work.seconds, err
		}
		if _, err := decode(); err != nil {
			return nil, err
		}
		first.add(got.work)
		took, err := medianTime(decode)
		if err != nil {
			return nil, err
		}
		got.work.seconds = took
		again.add(got.work)
		if err := k.add(ctx, &got); err != nil {
			return nil, err
		}
		if file != nil {
			file.put(&got)
		}
	}
	r := cmd.describe(d, &again)
	r.First, r.Output = first.seconds, cmd.Out
	if err := k.report(ctx, r); err != nil || file == nil {
		return r, err
	}
	return r, file.write(ctx, cmd.Out)
}

// mostAgain and shortTime bound how often a decode is timed once more, and how long that may take all together.
const (
	mostAgain = 9
	shortTime = 20e-3 // seconds
)

// medianTime is what a decode takes, in seconds: the median of as many as take a short time together, at least one.
func medianTime(decode func() (float64, error)) (float64, error) {
	var times []float64
	for spent := 0.0; len(times) == 0 || len(times) < mostAgain && spent < shortTime; {
		seconds, err := decode()
		if err != nil {
			return 0, err
		}
		times, spent = append(times, seconds), spent+seconds
	}
	return bench.Median(times), nil
}

func (cmd *runCmd) describe(d *decoder, got *work) *runReport {
	info := d.engine.Info()
	return &runReport{
		File: cmd.File, Backend: info.Name, Device: info.Device, Kernel: info.Kernel, Threads: threadsOf(info), Width: info.Width,
		KVDType: d.cache.types(), PageSize: d.cache.pageSize, KVBytes: d.cache.bytes(d.c),
		Steps: got.steps, Splits: got.splits, Units: got.units, Items: got.items, Reason: got.reason, Rules: d.c.rulesLine(),
		Woken: got.woken.workers, Asleep: got.woken.whyAtFirst(), Seconds: got.seconds,
	}
}

// threadsOf is the processor threads that a backend computes on: a GPU takes none.
func threadsOf(info backend.Info) int {
	if info.Name == "cpu" {
		return info.Width
	}
	return 0
}

// runCheck compares results with the direct softmax, and with what else there is.
type runCheck struct {
	c        *decodeCase
	threads  int
	bar      bar
	judges   []*judge // of what was decoded, and where a cache is lossy, of the file's own
	judged   [2]judgement
	attended newest
}

func (cmd *runCmd) newCheck(t *terminal, d *decoder) *runCheck {
	k := &runCheck{c: d.c, threads: cmd.threads()}
	sources := []source{d.cache.source(d.c)}
	if d.cache.lossy {
		sources = append(sources, d.c.fromFile)
	}
	blocks := 0
	for _, chunk := range d.chunks {
		blocks += d.c.blocks(chunk)
	}
	k.bar = t.bar(len(sources)*blocks, "direct softmax")
	for _, from := range sources {
		k.judges = append(k.judges, &judge{c: d.c, from: from, threads: k.threads, lossy: d.cache.lossy, step: k.bar.step})
	}
	return k
}

// add judges a chunk.
func (k *runCheck) add(ctx context.Context, got *decoded) error {
	for i, j := range k.judges {
		judged, err := j.judge(ctx, got)
		if err != nil {
			return err
		}
		k.judged[i].add(judged)
	}
	k.attended.see(k.c, got)
	return nil
}

// report tells what was found.
func (k *runCheck) report(ctx context.Context, r *runReport) (err error) {
	r.OK, r.distances = k.judged[0].ok(), k.judged[0].distances()
	if len(k.judges) > 1 {
		r.unconverted = k.judged[1].direct
		r.UnconvertedErr, r.UnconvertedNonFinite = &r.unconverted.Err, &r.unconverted.nonFinite
	}
	r.Attention, err = k.c.mostAttended(ctx, &k.attended, k.judges[0].from, k.threads)
	if len(r.Attention) == 0 {
		r.NoAttention = k.c.whyNoAttention(&k.attended)
	}
	return err
}

func (r *runReport) print(t *terminal, c *decodeCase) {
	t.printf("%s\n\n", c.title())
	t.printf("rules   %s\n", fold(r.Rules, 8))
	t.printf("ran     %s\n", r.where())
	t.printf("cache   %s\n", r.cacheLine())
	t.printf("splits  %s\n", fold(r.splitsLine(), 8))
	if r.Asleep != "" {
		t.printf("woken   %s\n", fold(r.Asleep, 8))
	}
	if r.Tuned != "" {
		t.printf("tuned   %s\n", fold(r.Tuned, 8))
	}
	t.printf("time    %s, %s of keys and values a second (%s the first time)\n",
		bench.Duration(r.Seconds), byteCount(int(float64(r.KVBytes)/max(r.Seconds, 1e-9))), bench.Duration(r.First))
	r.judgement.print(t)
	if r.UnconvertedErr != nil {
		r.printPrice(t)
	}
	if r.Output != "" {
		t.printf("wrote   out and lse to %s\n", quotePath(r.Output))
	}
	if r.NoAttention != "" {
		t.printf("\n%s\n", fold(r.NoAttention, 0))
		return
	}
	printAttention(t, c, r.Attention)
}

// printPrice tells what rounding keys and values did to the result.
func (r *runReport) printPrice(t *terminal) {
	v := &r.unconverted
	far := fmt.Sprintf("out %.2g from what the file's own k and v give", v.Err)
	lost := v.lossWords()
	switch {
	case lost == "" && v.outs == 0 && v.rows > 0:
		t.printf("stored  out not finite, as with the file's own k and v\n")
	case lost == "":
		t.printf("stored  %s: the price of %s\n", far, r.KVDType)
	default:
		t.printf("stored  %s: the price of %s\n", lost, r.KVDType)
		if v.outs > 0 {
			t.printf("        %s, where both are finite\n", far)
		}
	}
}

// where says what computed.
func (r *runReport) where() string {
	where := r.Backend
	if r.Device != "" {
		where += ", " + r.Device
	}
	workers := count(r.Threads, "thread")
	if r.Threads == 0 {
		workers = count(r.Width, "item") + " at once"
	}
	return fmt.Sprintf("%s, %s, %s kernels", where, workers, r.Kernel)
}

// splitsLine is the reason of the splits, those of the first step where there are
// several.
func (r *runReport) splitsLine() string {
	if r.Steps == 1 {
		return r.Reason
	}
	return fmt.Sprintf("%d steps one after the other, to bound memory; in the first: %s", r.Steps, r.Reason)
}

func (r *runReport) cacheLine() string {
	where := fmt.Sprintf("copied into pages of %s", count(r.PageSize, "key"))
	if r.PageSize == 0 {
		where = "used in place"
	}
	return fmt.Sprintf("%s %s, %s", byteCount(r.KVBytes), r.KVDType, where)
}
