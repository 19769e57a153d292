package model

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/internal/network"
	"github.com/flashdec/flashdec/kv"
)

// Options say how a runner computes. Engine is required; the rest may be zero.
type Options struct {
	Engine *flashdec.Engine // computes the attention; the caller closes it
	// Device computes all of a model, where that is not the CPU: package model/gpu has one. It goes with an
	// Engine on the same GPU, which then plans alone.
	Device Device
	// Threads is how many goroutines multiply, the caller of Forward counted. Zero means GOMAXPROCS.
	Threads int
	// KeyType and ValueType are what the caches store. The zero value is F32, which loses nothing;
	// flashdec generate stores F16 unless told otherwise, half of the bytes to read.
	KeyType, ValueType kv.DType
	// MaxContext is the most tokens of a sequence. Zero means what the model was made for. It may be more, and what
	// follows from positions beyond Config.Reach is computed as any, but the model never saw their like. Memory is
	// taken as it is used.
	MaxContext int
	// MaxSequences is how many sequences of MaxContext tokens there is room for. Zero means 1. More
	// sequences may exist, as long as they are shorter.
	MaxSequences int
	// BatchTokens is the most tokens of one Forward. Zero means 256.
	BatchTokens int
	// PageSize is the slots of a cache's page. Zero means 128.
	PageSize int
	// NumSplits forces how many splits each sequence's keys are cut into. Zero lets the plan choose.
	NumSplits int
	// Invariant makes a sequence's bits independent of a batch's other sequences and of the number of threads, on the
	// CPU; prompts are read at half the pace. On a GPU it is attention that is made so.
	Invariant bool
}

// Device computes models elsewhere than on the CPU. Package model/gpu has one for NVIDIA's; the methods are between
// packages of this module.
type Device interface{ network.Device }

const (
	defaultBatchTokens = 256
	defaultPageSize    = 128
	maxBatchTokens     = 1 << 16
	maxThreads         = 1 << 12
	maxSequences       = 1 << 16
)

// complete puts defaults in and checks the rest. It wraps ErrInput.
func (o *Options) complete(c *Config) error {
	if o.Engine == nil {
		return fmt.Errorf("%w: no engine", ErrInput)
	}
	for _, f := range [...]struct {
		name  string
		value *int
		zero  int
		high  int
	}{
		{"number of threads", &o.Threads, runtime.GOMAXPROCS(0), maxThreads},
		{"context", &o.MaxContext, c.MaxContext, maxContext},
		{"number of sequences", &o.MaxSequences, 1, maxSequences},
		{"number of tokens a batch", &o.BatchTokens, defaultBatchTokens, maxBatchTokens},
		{"page size", &o.PageSize, defaultPageSize, maxContext},
		{"number of splits", &o.NumSplits, 0, maxContext},
	} {
		if *f.value < 0 || *f.value > f.high {
			instead := strconv.Itoa(f.zero)
			if f.zero == 0 {
				instead = "as many as the plan chooses"
			}
			return fmt.Errorf("%w: %s is %d, want 1 to %d, or 0 for %s", ErrInput, f.name, *f.value, f.high, instead)
		}
		if *f.value == 0 {
			*f.value = f.zero
		}
	}
	return nil
}

// Runner turns tokens into logits: a model, an engine, caches, and buffers. Its methods may be called from
// several goroutines, one Forward at a time taking effect.
type Runner struct {
	model *Model
	opt   Options
	net   *network.Network

	mu     sync.Mutex
	steps  network.Steps
	caches []network.Cache // the steps'
	stats  Stats
	closed bool
}

// Stats say what a runner has done since it was made.
type Stats struct {
	Tokens    int
	Seconds   float64 // in Forward
	Attention float64 // seconds of these in attention, from planning to the last merge; of the CPU alone
}

// NewRunner makes a runner. Close it to give its memory and goroutines back. It wraps ErrInput,
// flashdec.ErrClosed where the engine is closed, or what making a cache returns: kv.ErrMemory where there is too
// little for MaxContext tokens.
func NewRunner(m *Model, opt Options) (*Runner, error) {
	if err := opt.complete(m.Config()); err != nil {
		return nil, err
	}
	if err := m.hold(); err != nil {
		return nil, err
	}
	r := &Runner{model: m, opt: opt, net: m.network}
	if err := r.open(); err != nil {
		m.drop()
		return nil, fmt.Errorf("model: %w", err)
	}
	return r, nil
}

// open opens the steps, on the CPU or the device.
func (r *Runner) open() (err error) {
	for k := range numKinds { // a plan of no sequence: is the engine open?
		if _, err := r.plan(k, nil, nil); r.net.Has(k) && err != nil {
			return err
		}
	}
	o := network.Options{Plan: r.plan, MaxTokens: r.opt.BatchTokens}
	for k := range numKinds {
		o.Cache[k] = r.cacheConfig(k)
	}
	if r.opt.Device != nil {
		r.steps, err = r.opt.Device.Open(r.net, o)
	} else {
		r.steps, err = newHost(r.net, r.opt.Engine, r.opt.Threads, r.opt.Invariant, o)
	}
	if err == nil {
		r.caches = r.steps.Caches()
	}
	return err
}

// plan plans the attention of all layers of a kind.
func (r *Runner) plan(k kind, lens, queries []int) (*flashdec.Step, error) {
	return r.opt.Engine.Plan(flashdec.Batch{
		Shape: r.net.Shape, Options: r.net.Attention[k], Lens: lens, NumQueries: queries, KVBits: r.opt.KeyType.Bits(),
		NumSplits: r.opt.NumSplits, Invariant: r.opt.Invariant,
	})
}

// cacheConfig describes the cache of a layer of some kind. One with a window needs room for the window
// and for a batch at once, at any place in its pages.
func (r *Runner) cacheConfig(k kind) kv.Config {
	c, size := &r.model.config, r.opt.PageSize
	tokens := r.opt.MaxContext
	if k == sliding {
		tokens = min(tokens, c.Window-1+r.opt.BatchTokens+size)
	}
	return kv.Config{
		NumKVHeads: c.NumKVHeads, KeyDim: c.HeadDim, ValueDim: c.HeadDim, KeyType: r.opt.KeyType, ValueType: r.opt.ValueType,
		PageSize: size, NumPages: (tokens + size - 1) / size * r.opt.MaxSequences,
	}
}

// Config describes the model.
func (r *Runner) Config() *Config {
	if r == nil {
		return new(Config)
	}
	return r.model.Config()
}

// Options are those in force, defaults put in.
func (r *Runner) Options() Options {
	if r == nil {
		return Options{}
	}
	return r.opt
}

// Stats are the counts so far.
func (r *Runner) Stats() Stats {
	if r == nil {
		return Stats{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stats
}

// KVBytes is the size of the pages that sequences hold.
func (r *Runner) KVBytes() int {
	if r == nil {
		return 0
	}
	n := 0
	for _, c := range r.caches {
		n += c.Stats().Bytes
	}
	return n
}

// WeightBytes is the size of the weights that one token reads where it is computed: [Model.WeightBytes] on the
// CPU; a GPU may have them in another type.
func (r *Runner) WeightBytes() int {
	if r == nil || r.steps == nil {
		return 0
	}
	return r.steps.WeightBytes()
}

// Close waits for a Forward that is under way, stops the runner and gives its memory back. Its sequences
// cannot be used afterwards. The error is of giving memory back, or wraps [ErrInput] where the runner was closed before.
func (r *Runner) Close() error {
	if err := r.lock(); err != nil {
		return err
	}
	defer r.mu.Unlock()
	r.closed = true
	r.model.drop()
	return r.steps.Close()
}

// lock takes the lock of a runner that can be used, and wraps ErrInput for others.
func (r *Runner) lock() error {
	if r == nil || r.steps == nil {
		return fmt.Errorf("%w: the runner was never made", ErrInput)
	}
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return fmt.Errorf("%w: the runner is closed", ErrInput)
	}
	return nil
}

// Part is one sequence's share of a Forward.
type Part struct {
	Seq *Sequence
	IDs []int // the tokens that follow those it has
	// Logits receives those of the last token [VocabSize], or of every token [len(IDs), VocabSize], before
	// the softmax and capped where the model caps them; nil for none.
	Logits []float32
}

// Forward appends tokens to sequences and computes the logits of what may follow. All parts together are
// at most [Options.BatchTokens] tokens; a sequence comes in one part only.
//
// On an error, and when ctx is done before the end, the sequences are as they were. It wraps [ErrInput],
// [ErrContext], [kv.ErrNoPages], [tensorfile.ErrCut] where a file of weights was cut short, or the cause of ctx.
func (r *Runner) Forward(ctx context.Context, parts ...Part) error {
	if ctx == nil {
		return fmt.Errorf("%w: no context", ErrInput)
	}
	if err := r.lock(); err != nil {
		return err
	}
	defer r.mu.Unlock()
	start := time.Now()
	if err := r.check(parts); err != nil {
		return err
	}
	b := r.batchOf(parts)
	if len(b.IDs) == 0 {
		return nil
	}
	if err := r.forward(ctx, b); err != nil {
		r.rollBack(b)
		if errors.Is(err, kv.ErrNoPages) {
			return fmt.Errorf("%w: the runner has room for %d × %d tokens (Options.MaxSequences and MaxContext), forks counted where they differ",
				err, r.opt.MaxSequences, r.opt.MaxContext)
		}
		return err
	}
	r.stats.Tokens += len(b.IDs)
	r.stats.Seconds += time.Since(start).Seconds()
	r.stats.Attention = r.steps.Attending()
	return r.commit(parts)
}

// check wraps ErrInput or ErrContext.
func (r *Runner) check(parts []Part) error {
	vocab, total := r.model.config.VocabSize, 0
	for i, p := range parts {
		switch {
		case p.Seq == nil || p.Seq.runner != r:
			return fmt.Errorf("%w: the sequence of part %d is nil or another runner's", ErrInput, i)
		case p.Seq.caches == nil:
			return fmt.Errorf("%w: the sequence of part %d is freed", ErrInput, i)
		case p.Logits != nil && len(p.Logits) != vocab && len(p.Logits) != len(p.IDs)*vocab:
			return fmt.Errorf("%w: part %d has room for %d logits, want %d or %d times as many", ErrInput, i, len(p.Logits), vocab, len(p.IDs))
		case p.Logits != nil && len(p.IDs) == 0:
			return fmt.Errorf("%w: part %d wants logits, but has no token", ErrInput, i)
		}
		for _, q := range parts[:i] {
			if q.Seq == p.Seq {
				return fmt.Errorf("%w: part %d has the sequence of another", ErrInput, i)
			}
		}
		if err := p.Seq.takes(p.IDs); err != nil {
			return err
		}
		total += len(p.IDs)
	}
	if total > r.opt.BatchTokens {
		return fmt.Errorf("%w: %d tokens at once, want at most %d", ErrInput, total, r.opt.BatchTokens)
	}
	return nil
}
