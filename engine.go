package flashdec

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/internal/cpu"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/plan"
)

// ErrClosed is returned by calls on an engine that is closed, or was never opened.
var ErrClosed = backend.ErrClosed

// Options choose where an engine computes. The zero value is the CPU with as
// many threads as GOMAXPROCS.
type Options struct {
	// Backend computes; the engine closes it. Nil means the CPU.
	Backend backend.Backend
	// Threads is how many goroutines the CPU backend computes on. Zero means
	// GOMAXPROCS. It must be zero when Backend is set.
	Threads int
	// HelperWork is how many multiply-adds of a step, at least 1, make one more of the CPU's
	// threads worth waking, as flashdec tune finds it; half of it where a step ended
	// just before. Zero is what is built in.
	// It must be zero when Backend is set.
	HelperWork int
	// MinKeysPerSplit is the least number of keys that a split is worth, at least
	// 32, as flashdec tune finds it; zero leaves it to the backend, and then to the
	// plan. On long steps it hardly matters, on steps of some 1000 keys it may
	// save a fifth of the time. It changes which sums are formed, so bits but not
	// meaning; invariant batches and forced splits do not look at it.
	MinKeysPerSplit int
	// MinKeysSource says where MinKeysPerSplit came from, such as "tuned on
	// 2026-11-30", for those who read a plan's reason.
	MinKeysSource string
}

// maxThreads is as many as a plan can be made for.
const maxThreads = plan.MaxWidth

// Engine computes decode attention on one backend. Its methods may be called
// from several goroutines at once.
type Engine struct {
	backend       backend.Backend
	minKeys       int // of a split
	minKeysSource string
	closed        atomic.Bool
}

// Open returns an engine. Close it to give its threads back. On the CPU, it
// refuses a FLASHDEC_SIMD that names no kernel level. It wraps [attn.ErrOption].
func Open(opts Options) (*Engine, error) {
	if n := opts.MinKeysPerSplit; n != 0 && n < plan.LeastKeysPerSplit {
		return nil, fmt.Errorf("%w: %d keys per split at least, want %d or more, or 0 for the backend's own", attn.ErrOption, n, plan.LeastKeysPerSplit)
	}
	if opts.Backend != nil {
		if opts.Threads != 0 {
			return nil, fmt.Errorf("%w: %d threads for a given backend, want 0", attn.ErrOption, opts.Threads)
		}
		if opts.HelperWork != 0 {
			return nil, fmt.Errorf("%w: %d multiply-adds a helper for a given backend, want 0", attn.ErrOption, opts.HelperWork)
		}
		return opts.engine(opts.Backend), nil
	}
	if opts.Threads < 0 || opts.Threads > maxThreads {
		return nil, fmt.Errorf("%w: %d threads, want 1 to %d, or 0 for GOMAXPROCS", attn.ErrOption, opts.Threads, maxThreads)
	}
	if opts.HelperWork < 0 {
		return nil, fmt.Errorf("%w: %d multiply-adds a helper, want at least 1, or 0 for what is built in", attn.ErrOption, opts.HelperWork)
	}
	if err := cpu.CheckEnv(); err != nil {
		return nil, fmt.Errorf("%w: %w", attn.ErrOption, err)
	}
	return opts.engine(cpu.New(cpu.Options{Threads: opts.Threads, HelperWork: opts.HelperWork})), nil
}

// engine is the engine on a backend.
func (opts *Options) engine(b backend.Backend) *Engine {
	e := &Engine{backend: b, minKeys: opts.MinKeysPerSplit, minKeysSource: opts.MinKeysSource}
	if e.minKeys == 0 {
		e.minKeys, e.minKeysSource = b.Info().MinKeysPerSplit, "the backend's"
	}
	return e
}

// Close stops the engine and closes its backend. Decodes under way finish; later calls
// return [ErrClosed].
func (e *Engine) Close() error {
	if err := e.opened(); err != nil {
		return err
	}
	e.closed.Store(true)
	return e.backend.Close()
}

// opened reports an engine that [Open] did not make, or that is closed.
func (e *Engine) opened() error {
	switch {
	case e == nil || e.backend == nil:
		return fmt.Errorf("%w: the engine was not opened", ErrClosed)
	case e.closed.Load():
		return fmt.Errorf("%w: the engine was closed", ErrClosed)
	}
	return nil
}

// Info describes the backend. It is zero for an engine that was never opened, and as it was for one
// that is closed.
func (e *Engine) Info() backend.Info {
	if e == nil || e.backend == nil {
		return backend.Info{}
	}
	return e.backend.Info()
}

// NewCache makes a paged KV cache in the host's memory, which every engine can read; one
// in a GPU's is made by package cuda. Errors are those of [kv.New], and [ErrClosed].
func (e *Engine) NewCache(cfg kv.Config) (*kv.Cache, error) {
	if err := e.opened(); err != nil {
		return nil, err
	}
	return kv.New(cfg)
}

// Batch is what a plan is made from: the sequences of a step, by their lengths,
// and the rules.
type Batch struct {
	Shape   attn.Shape
	Options attn.Options
	// Lens[i] is how many keys sequence i has, its new ones counted: a causal batch
	// that leaves them out has queries before its first key, and these get zeros.
	Lens []int
	// NumQueries[i] is how many new queries sequence i has; the last stands at
	// its last key. Nil means one each.
	NumQueries []int
	// KVBits is how many bits an element of the cached keys has, [kv.DType.Bits]: backends may
	// like types cut differently. Zero is unknown, and good for any. Neither forced splits nor
	// invariant ones look at it.
	KVBits int
	// NumSplits forces how many splits each sequence's keys are cut into. Zero
	// lets the plan choose.
	NumSplits int
	// Invariant makes a sequence's bits independent of the other sequences, of its
	// place among them, and of the number of threads.
	Invariant bool
}

// Step is a planned step. It can be used any number of times, for all layers of
// a model, as long as lengths and rules stay the same. It is safe for concurrent
// use.
type Step struct {
	shape   attn.Shape
	options attn.Options
	plan    *plan.Plan
	queries int
}

// maxKVBits is the size of an element of the widest type, [kv.F32].
const maxKVBits = 32

// Plan cuts a batch into work for this engine. The batch's slices must not
// change while the step is in use. A batch whose queries or outputs no buffer can
// hold is refused, and so is a mask that does not fit its sequences. It wraps [attn.ErrShape], [attn.ErrOption] and [ErrClosed].
func (e *Engine) Plan(b Batch) (*Step, error) {
	if err := e.opened(); err != nil {
		return nil, err
	}
	if err := b.Shape.Validate(); err != nil {
		return nil, err
	}
	if err := b.Options.Validate(b.Shape); err != nil {
		return nil, err
	}
	queries := b.NumQueries
	if queries == nil {
		queries = slices.Repeat([]int{1}, len(b.Lens))
	}
	if len(queries) != len(b.Lens) {
		return nil, fmt.Errorf("%w: query counts for %d sequences, want %d", attn.ErrShape, len(queries), len(b.Lens))
	}
	if b.KVBits < 0 || b.KVBits > maxKVBits {
		return nil, fmt.Errorf("%w: %d bits an element of the keys, want 1 to %d, or 0 for unknown", attn.ErrOption, b.KVBits, maxKVBits)
	}
	if b.Options.Mask != nil {
		if err := b.Options.Mask.Fits(b.Lens, queries); err != nil {
			return nil, err
		}
	}
	s := &Step{shape: b.Shape, options: b.Options}
	seqs := make([]plan.Seq, len(b.Lens))
	for i, n := range b.Lens {
		seqs[i] = plan.Seq{Len: n, NumQueries: queries[i]}
		s.queries += queries[i]
		if err := b.Shape.CheckQueries(s.queries); err != nil {
			return nil, err
		}
	}
	info := e.backend.Info()
	p, err := plan.New(plan.Config{
		Seqs:       seqs,
		NumKVHeads: b.Shape.NumKVHeads,
		GroupSize:  b.Shape.GroupSize(),
		Causal:     b.Options.Causal,
		Window:     b.Options.Window,
		Width:      info.Width,
		NumSplits:  b.NumSplits,
		Invariant:  b.Invariant,
		QueryTile:  info.QueryTile,
		HeadTile:   info.HeadTile,

		MinKeysPerSplit: e.minKeys,
		StartKeys:       info.StartKeys,
		Saturating:      info.Saturating,
		SaturatingKeys:  info.SaturatingKeys(b.Shape, b.KVBits),
		MergeKeys:       info.MergeKeys,
		MinKeysSource:   e.minKeysSource,
	})
	if err != nil {
		return nil, err
	}
	s.plan = p
	return s, nil
}

// WithSinks is the same step for heads with other sinks [NumHeads], nil for none:
// layers that differ in nothing else share a plan. It wraps [attn.ErrShape].
func (s *Step) WithSinks(sinks []float32) (*Step, error) {
	if s == nil {
		return nil, fmt.Errorf("%w: the step is nil", attn.ErrShape)
	}
	other := *s
	other.options.Sinks = sinks
	if err := other.options.Validate(s.shape); err != nil {
		return nil, err
	}
	return &other, nil
}

// Plan is the step's work list. It is for reading: a step whose plan was changed
// cannot be decoded any more.
func (s *Step) Plan() *plan.Plan {
	if s == nil {
		return nil
	}
	return s.plan
}

// NumQueries is how many queries the step has in all.
func (s *Step) NumQueries() int {
	if s == nil {
		return 0
	}
	return s.queries
}

// Output receives a step's results.
type Output struct {
	Out []float32 // [queries, NumHeads, ValueDim]
	LSE []float32 // [queries, NumHeads] ln Σ exp(score), the sink counted in; nil if not wanted
}

// LSE2 is LSE[i] in base 2, that of query i / NumHeads and head i mod NumHeads; NaN
// where there is none.
func (o *Output) LSE2(i int) attn.LSE2 {
	if o == nil || i < 0 || i >= len(o.LSE) {
		return attn.LSE2(math.NaN())
	}
	return attn.LSE(o.LSE[i]).Base2()
}

// NewOutput returns room for the step's results.
func (s *Step) NewOutput() *Output {
	if s == nil {
		return &Output{}
	}
	rows := s.queries * s.shape.NumHeads
	return &Output{Out: make([]float32, rows*s.shape.ValueDim), LSE: make([]float32, rows)}
}

// NewStates returns room for the step's states.
func (s *Step) NewStates() *attn.States {
	if s == nil {
		return &attn.States{}
	}
	states := attn.MakeStates(s.queries*s.shape.NumHeads, s.shape.ValueDim)
	return &states
}

// Decode computes a step: q [queries, NumHeads, KeyDim] over the cached keys and
// values of view, into out. A query that sees no key gets zeros and the LSE −Inf.
//
// When ctx is done first, Decode returns its cause, and out's contents are undefined:
// on a CPU each thread looks every few thousand keys at the latest, and a GPU finishes
// what it has begun. It wraps [attn.ErrShape] where buffers, view and
// step do not fit each other, in particular where a sequence's length has changed
// since the step was planned; and [kv.ErrStale] where a sequence has changed, or the
// cache was closed, since the view was made; and [ErrClosed]. Keys and values that
// lie in a file of package tensorfile, and are gone since it was cut short, are its
// ErrCut.
func (e *Engine) Decode(ctx context.Context, s *Step, q []float32, view kv.View, out *Output) error {
	switch {
	case s == nil:
		return fmt.Errorf("%w: the step is nil, want one that Plan made", attn.ErrShape)
	case out == nil:
		return fmt.Errorf("%w: the output is nil, want one such as Step.NewOutput makes", attn.ErrShape)
	}
	return e.launch(ctx, &backend.Launch{
		Shape: s.shape, Options: &s.options, Plan: s.plan, KV: view, Q: q,
		Out: out.Out, LSE: out.LSE,
	})
}

// DecodeStates computes a step's states, one a query and head, without sinks:
// merge the states of all key sets first ([attn.States.Merge]), then add the
// sinks once ([attn.States.Output]). Errors are those of [Engine.Decode].
func (e *Engine) DecodeStates(ctx context.Context, s *Step, q []float32, view kv.View, states *attn.States) error {
	switch {
	case s == nil:
		return fmt.Errorf("%w: the step is nil, want one that Plan made", attn.ErrShape)
	case states == nil:
		return fmt.Errorf("%w: the states are nil, want a row for each query and head", attn.ErrShape)
	}
	return e.launch(ctx, &backend.Launch{
		Shape: s.shape, Options: &s.options, Plan: s.plan, KV: view, Q: q,
		States: states,
	})
}

// Assist lends the calling goroutine to the decodes that others call, until something holds: it is asked all
// the while, and must be quick to answer. So goroutines that wait for the next thing to do of a program that
// decodes again and again save a decode the waking of others. It returns false, at once, where the backend
// takes no such help, or is closed.
func (e *Engine) Assist(until func() bool) bool {
	if e.opened() != nil || until == nil {
		return false
	}
	b, ok := e.backend.(backend.Assisted)
	return ok && b.Assist(until)
}

func (e *Engine) launch(ctx context.Context, l *backend.Launch) error {
	if err := e.opened(); err != nil {
		return err
	}
	if ctx == nil {
		return fmt.Errorf("%w: the context is nil", attn.ErrOption)
	}
	if err := l.Validate(); err != nil {
		return err
	}
	return e.backend.Decode(ctx, l)
}
