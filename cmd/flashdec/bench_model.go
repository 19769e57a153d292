package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/flashdec/flashdec/internal/bench"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/model"
)

// modelStepsARound is how many decode steps a round of measuring takes.
const modelStepsARound = 4

// modelRoom is what steps need beyond a context.
func (cmd *benchCmd) modelRoom() int { return modelStepsARound * (cmd.rounds() + 1) }

// modelBench measures a model's decode steps with some number of threads, cut by the plan and not cut.
type modelBench struct {
	cmd     *benchCmd
	loaded  *loaded
	threads int
	ways    []*modelWay
}

// modelWay is a runner and the sequence that it decodes.
type modelWay struct {
	bench.ModelSteps
	runner *model.Runner
	seq    *model.Sequence
	logits []float32
}

// measureModel measures at each context, with each number of threads: how fast a prompt of as many tokens is read, and
// how fast tokens are decoded after it.
func (cmd *benchCmd) measureModel(ctx context.Context, report *benchReport) (err error) {
	threads := cmd.threadCounts(bench.ModelSuite)
	contexts, prompts, err := cmd.modelLengths(len(threads), freeMemory())
	if err != nil {
		return err
	}
	most, _ := longest(contexts, prompts)
	var all []*modelBench
	defer func() {
		for _, b := range all {
			err = errors.Join(err, b.close())
		}
	}()
	for _, n := range threads {
		b, err := cmd.openModel(n, most)
		if err != nil {
			return err
		}
		all = append(all, b)
	}
	read, err := all[0].reader(ctx, contexts[len(contexts)-1])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, read.close()) }()
	p, err := startPeer(cmd.Peer, report.t.errs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	bar := report.t.bar((len(prompts)+len(contexts))*len(all), "measuring")
	defer bar.done()
	each := func(lengths []int, measure func(b *modelBench, tokens int) error) error {
		for _, n := range lengths {
			for _, b := range all {
				if err := measure(b, n); err != nil {
					return err
				}
				bar.step()
			}
		}
		return nil
	}
	// Prompts come first: decoding keeps its sequences.
	if err := each(prompts, func(b *modelBench, n int) error { return b.measurePrompt(ctx, n, p, report) }); err != nil {
		return err
	}
	return each(contexts, func(b *modelBench, n int) error { return b.measure(ctx, n, read, p, report) })
}

// modelReader reads memory, and nothing else, where a model is computed.
type modelReader struct {
	rate  func(ctx context.Context, bytes, threads int) (float64, error)
	close func() error
}

// reader reads as much as a step that sees so many tokens.
func (b *modelBench) reader(ctx context.Context, tokens int) (*modelReader, error) {
	if b.loaded.device == nil {
		r, err := bench.NewReader(ctx, b.bytes(tokens))
		if err != nil {
			return nil, err
		}
		return &modelReader{r.Rate, r.Close}, nil
	}
	r, err := b.loaded.device.NewReader()
	if err != nil {
		return nil, err
	}
	return &modelReader{func(ctx context.Context, bytes, _ int) (float64, error) { return r.Rate(ctx, bytes) }, r.Close}, nil
}

func (cmd *benchCmd) openModel(threads, context int) (*modelBench, error) {
	flags := modelFlags{Backend: cmd.on(), KVDType: cmd.KVDType, Threads: threads, MaxContext: context + cmd.modelRoom()}
	l, err := flags.load(cmd.Model)
	if err != nil {
		return nil, err
	}
	b := &modelBench{cmd: cmd, loaded: l, threads: threads}
	for impl, splits := range map[string]int{"flashdec": 0, "unsplit": 1} {
		flags.Splits = splits
		r, err := l.runner(&flags, cmd.KVDType)
		if err != nil {
			return nil, errors.Join(err, b.close())
		}
		w := &modelWay{runner: r, seq: r.NewSequence(), logits: make([]float32, r.Config().VocabSize)}
		w.Impl, w.Splits, w.Step = impl, splits, w.decode
		b.ways = append(b.ways, w)
	}
	slices.SortFunc(b.ways, func(x, y *modelWay) int { return x.Splits - y.Splits })
	return b, nil
}

func (b *modelBench) close() error {
	var err error
	for _, w := range b.ways {
		err = errors.Join(err, w.runner.Close())
	}
	return errors.Join(err, b.loaded.close())
}

// bytes is what a step reads that sees so many tokens.
func (b *modelBench) bytes(tokens int) int {
	w := b.ways[0]
	return w.runner.WeightBytes() + modelKVBytes(w.runner.Config(), w.runner.Options().KeyType, tokens)
}

// modelKVBytes is the size of the keys and values of so many tokens, as far as layers see them.
func modelKVBytes(c *model.Config, t kv.DType, tokens int) int {
	row := t.RowBytes(c.HeadDim)
	if t.Quantised() {
		row += 4 // its scale
	}
	seen := (c.NumLayers()-c.NumSliding())*tokens + c.NumSliding()*min(tokens, c.Window)
	return seen * c.NumKVHeads * 2 * row
}

// steps is what is known of a way's decode steps that see so many tokens, or of its reading of a prompt of as many.
func (b *modelBench) steps(w *modelWay, tokens int) bench.ModelSteps {
	c := w.runner.Config()
	return bench.ModelSteps{
		Model: filepath.Base(b.cmd.Model), Context: tokens, Impl: w.Impl, Splits: w.Splits, Step: w.Step,
		WeightBytes: w.runner.WeightBytes(), KVBytes: modelKVBytes(c, w.runner.Options().KeyType, tokens), KVDType: b.cmd.KVDType,
		QHeads: c.NumHeads, KVHeads: c.NumKVHeads, Dim: c.HeadDim,
	}
}

// decode decodes a few tokens.
func (w *modelWay) decode(ctx context.Context) (float64, error) {
	start := time.Now()
	for range modelStepsARound {
		if err := w.runner.Forward(ctx, model.Part{Seq: w.seq, IDs: []int{0}, Logits: w.logits}); err != nil {
			return 0, err
		}
	}
	return time.Since(start).Seconds() / modelStepsARound, nil
}

// measure reports how fast the ways decode after a text that makes the first step see so many tokens.
func (b *modelBench) measure(ctx context.Context, tokens int, read *modelReader, p *peer, report *benchReport) error {
	var ways []*bench.ModelSteps
	for _, w := range b.ways {
		if n := tokens - 1 - w.seq.Len(); n > 0 {
			if err := w.seq.MakeUp(n, uint64(tokens)); err != nil {
				return err
			}
		}
		w.ModelSteps = b.steps(w, tokens)
		ways = append(ways, &w.ModelSteps)
	}
	request := peerModelRequest{Model: b.cmd.Model, Context: tokens, KVDType: b.cmd.KVDType, Threads: b.threads}
	other, err := p.modelWay(ctx, request, ways[0])
	if err != nil {
		return err
	}
	if other != nil {
		ways = append(ways, other)
	}
	rate := func(ctx context.Context, bytes int) (float64, error) { return read.rate(ctx, bytes, b.threads) }
	if err := bench.MeasureModel(ctx, ways, b.cmd.rounds(), rate); err != nil {
		return err
	}
	for _, w := range ways {
		if err := report.add(bench.ModelSuite, w.Row(b.threads, b.loaded.engine.Info())); err != nil {
			return err
		}
	}
	return nil
}

// checkModel refuses what no model can be measured with.
func (cmd *benchCmd) checkModel() error {
	if cmd.Model == "" {
		return nil
	}
	if _, err := kv.ParseDType(cmd.KVDType); err != nil {
		return fmt.Errorf("--kv-dtype: %w", err)
	}
	if len(cmd.Contexts) == 0 {
		return errors.New("--contexts names none, want numbers of tokens")
	}
	for _, n := range cmd.Contexts {
		if n < 1 || n > maxModelContext {
			return fmt.Errorf("--contexts has %d, want 1 to %d", n, maxModelContext)
		}
	}
	for _, n := range cmd.Prompts {
		if n < 0 || n > maxModelContext || n == 0 && len(cmd.Prompts) > 1 {
			return fmt.Errorf("--prompts has %d, want 1 to %d, or 0 alone for none", n, maxModelContext)
		}
	}
	return nil
}

// longestPrompt is the longest prompt that is read unless --prompts asks for longer ones.
const longestPrompt = 2048

// modelLengths are the contexts and the prompts to measure, in order, which the model reaches (those that nobody asked for
// lie in what it was made for) and so much free memory has room
// for: nothing is filled before. Each number of threads has keys and values of its own for both ways; the bare read has
// memory of as many bytes as a step reads.
func (cmd *benchCmd) modelLengths(threadCounts, free int) (contexts, prompts []int, err error) {
	m, err := openWeights(cmd.Model)
	if err != nil {
		return nil, nil, err
	}
	defer m.Close() // nothing was written
	t, err := kv.ParseDType(cmd.KVDType)
	if err != nil {
		return nil, nil, err
	}
	c := m.Config()
	contexts = slices.Sorted(slices.Values(cmd.Contexts))
	if cmd.anyContexts {
		contexts = slices.DeleteFunc(contexts, func(n int) bool { return n > c.MaxContext })
	}
	if len(contexts) == 0 { // it has fewer than any that was not asked for
		contexts = []int{c.MaxContext}
	}
	prompts = slices.Sorted(slices.Values(cmd.Prompts))
	if len(prompts) == 0 {
		prompts = slices.DeleteFunc(slices.Clone(contexts), func(n int) bool { return n > longestPrompt })
	}
	prompts = slices.DeleteFunc(prompts, func(n int) bool { return n == 0 })
	most, whose := longest(contexts, prompts)
	if most > c.Reach {
		return nil, nil, fmt.Errorf("%s has %d, want at most %d, the model's context", whose, most, c.Reach)
	}
	const ways = 2
	need := ways*threadCounts*modelKVBytes(c, t, most+cmd.modelRoom()) + m.WeightBytes() + modelKVBytes(c, t, most)
	if need > free {
		return nil, nil, fmt.Errorf("%s has %d, which takes %s of memory, want at most %s, what is free: see --kv-dtype and --threads, too",
			whose, most, byteCount(need), byteCount(free))
	}
	return contexts, prompts, nil
}

// longest is the most tokens of some contexts and prompts, which are in order, and whose they are. There may be no prompt.
func longest(contexts, prompts []int) (tokens int, whose string) {
	most := contexts[len(contexts)-1]
	if n := len(prompts); n > 0 && prompts[n-1] > most {
		return prompts[n-1], "--prompts"
	}
	return most, "--contexts"
}

// maxModelContext bounds --contexts and --prompts.
const maxModelContext = 1 << 20
