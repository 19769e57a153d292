package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/internal/filemap"
	"github.com/flashdec/flashdec/internal/timeline"
	"github.com/flashdec/flashdec/kv"
)

// tracedStep is a step to trace, on an engine whose backend traces.
type tracedStep struct {
	title    string
	backend  backend.Backend
	engine   *flashdec.Engine
	batch    flashdec.Batch // without splits
	q        []float32
	views    []kv.View // the same step at several places, taken in turn
	kvDType  string
	pageSize int // 0: in place, or contiguous
	kvBytes  int
	tuned    string // what was found, in words
	found    tuned
	closers  []func() error // in the order of closing
}

func (s *tracedStep) close() error {
	var err error
	for _, f := range s.closers {
		err = errors.Join(err, f())
	}
	return err
}

// step opens what is to be traced.
func (cmd *traceCmd) step(ctx context.Context, u *tuner) (*tracedStep, error) {
	s := &tracedStep{}
	fill := s.fromFile
	switch {
	case cmd.File == "" && cmd.Backend == "cuda":
		fill = s.madeUpOnGPU
	case cmd.File == "":
		fill = s.madeUp
	}
	err := fill(ctx, u.t, cmd)
	if err == nil {
		err = s.open(&cmd.engineFlags, u)
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// open opens the engine, with what was found for it.
func (s *tracedStep) open(f *engineFlags, u *tuner) (err error) {
	if s.backend == nil {
		if s.backend, err = openBackend(f.Backend, f.Threads); err != nil {
			return err
		}
	}
	info := s.backend.Info()
	if !info.Traces {
		return errors.Join(fmt.Errorf("backend %s does not record who computes what, want --backend cpu", info.Name), s.backend.Close())
	}
	shape, view := &s.batch.Shape, &s.views[0]
	found := u.find(info, shape.KeyDim, shape.ValueDim, shape.GroupSize(), [2]kv.DType{view.K.Type, view.V.Type})
	s.found, s.tuned = found, found.tells()
	s.batch.Invariant = f.Invariant
	s.backend, s.engine, err = found.on(s.backend)
	if err == nil {
		s.closers = append([]func() error{s.backend.Close}, s.closers...)
	}
	return err
}

// fromFile is the step of a file.
func (s *tracedStep) fromFile(ctx context.Context, t *terminal, cmd *traceCmd) (err error) {
	defer filemap.Recover(&err, debug.SetPanicOnFault(true))
	c, err := openCase(ctx, cmd.File)
	if err != nil {
		return err
	}
	s.closers = append(s.closers, c.close)
	c.warn(t)
	cache, err := newCache(ctx, c, cmd.PageSize, cmd.KVDType)
	if err != nil {
		return err
	}
	s.closers = append([]func() error{cache.close}, s.closers...)
	s.title, s.q, s.views = c.label()+": "+c.describe(), c.queriesOf(c.whole()), []kv.View{cache.view}
	s.kvDType, s.pageSize, s.kvBytes = cache.types(), cache.pageSize, cache.bytes(c)
	s.batch = c.batch(c.whole(), heads{0, c.shape.NumKVHeads})
	s.batch.KVBits = cache.view.K.Type.Bits()
	return nil
}

// tracedDecode is one way to cut the step, decoded many times.
type tracedDecode struct {
	run    timeline.Run // the median of all
	step   *flashdec.Step
	woken  woken
	traces []*backend.Trace // of the rounds, the quickest first once measured
}

// decodes are the ways to cut the step: the one to compare with, if it differs,
// and the one asked for.
func (cmd *traceCmd) decodes(s *tracedStep) ([]*tracedDecode, error) {
	asked, err := s.cut(cmd.Splits)
	if err != nil {
		return nil, err
	}
	if cmd.CompareSplits == 0 || len(asked.run.Plan.Items) == 0 {
		return []*tracedDecode{asked}, nil
	}
	beside, err := s.cut(cmd.CompareSplits)
	if err != nil {
		return nil, err
	}
	if slices.Equal(beside.run.Plan.Items, asked.run.Plan.Items) {
		return []*tracedDecode{asked}, nil
	}
	return []*tracedDecode{beside, asked}, nil
}

// cut plans the step with so many splits, 0 for the plan's choice.
func (s *tracedStep) cut(splits int) (*tracedDecode, error) {
	batch := s.batch
	batch.NumSplits = splits
	step, err := s.engine.Plan(batch)
	if err != nil {
		return nil, err
	}
	p := step.Plan()
	fewest := p.MaxSplits()
	for i := range p.Units {
		if n := p.Units[i].NumSplits; n > 0 {
			fewest = min(fewest, n)
		}
	}
	name := count(p.MaxSplits(), "split")
	if fewest < p.MaxSplits() {
		name = fmt.Sprintf("%d to %s", fewest, name)
	}
	switch {
	case splits > 0:
	case batch.Invariant:
		name += ", of invariant mode"
	default:
		name += ", the plan's choice"
	}
	return &tracedDecode{step: step, woken: s.found.wakes(s.backend.Info(), batch.Shape, p), run: timeline.Run{Name: name, Plan: p}}, nil
}

// warmUps is how many decodes of each kind go before those that count.
const warmUps = 2

// measure decodes all kinds in turn, so that whatever else the machine does meets
// all of them, and picks the median of each. A trace that is not whole is an
// error.
func (s *tracedStep) measure(ctx context.Context, t *terminal, decodes []*tracedDecode, rounds int) error {
	bar := t.bar(warmUps+rounds, "decoding")
	defer bar.done()
	place := 0
	for round := range warmUps + rounds {
		for _, d := range decodes {
			trace := &backend.Trace{}
			if err := s.decode(ctx, d, trace, place); err != nil {
				return err
			}
			place = (place + 1) % len(s.views)
			if round >= warmUps {
				d.traces = append(d.traces, trace)
			}
		}
		bar.step()
	}
	for _, d := range decodes {
		d.pick()
		if err := d.run.Trace.Check(d.run.Plan); err != nil {
			return fmt.Errorf("backend %s: %w", s.backend.Info().Name, err)
		}
	}
	return nil
}

// pick sorts the traces, the quickest first, and shows the median.
func (d *tracedDecode) pick() {
	slices.SortFunc(d.traces, func(a, b *backend.Trace) int { return cmp.Compare(a.End, b.End) })
	d.run.Trace = d.traces[(len(d.traces)-1)/2]
}

// decode decodes once, into a trace.
func (s *tracedStep) decode(ctx context.Context, d *tracedDecode, trace *backend.Trace, place int) error {
	out := d.step.NewOutput()
	l := &backend.Launch{
		Shape: s.batch.Shape, Options: &s.batch.Options, Plan: d.run.Plan, KV: s.views[place], Q: s.q,
		Out: out.Out, LSE: out.LSE, Trace: trace,
	}
	if err := l.Validate(); err != nil {
		return err
	}
	return s.backend.Decode(ctx, l)
}
