package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flashdec/flashdec"
)

// decoder computes a case on an engine.
type decoder struct {
	c      *decodeCase
	engine *flashdec.Engine
	cache  *caseCache
}

// newDecoder opens an engine and brings the case into its cache.
func newDecoder(c *decodeCase, f *engineFlags) (*decoder, error) {
	engine, err := f.open()
	if err != nil {
		return nil, err
	}
	cache, err := newCache(c, f.PageSize, f.KVDType)
	if err != nil {
		_ = engine.Close() // err is the failure to report
		return nil, err
	}
	return &decoder{c, engine, cache}, nil
}

func (d *decoder) close() error { return errors.Join(d.cache.close(), d.engine.Close()) }

// decoded is a result, and how it came about.
type decoded struct {
	*flashdec.Output
	step    *flashdec.Step
	seconds float64
}

func (d *decoder) batch(splits int, invariant bool) flashdec.Batch {
	queries := make([]int, d.c.seqs)
	for i := range queries {
		queries[i] = d.c.queries
	}
	return flashdec.Batch{
		Shape: d.c.shape, Options: d.c.options, Lens: d.c.lens, NumQueries: queries,
		NumSplits: splits, Invariant: invariant,
	}
}

// decode computes the case with the given number of splits, 0 letting the plan
// choose.
func (d *decoder) decode(ctx context.Context, splits int, invariant bool) (*decoded, error) {
	step, err := d.engine.Plan(d.batch(splits, invariant))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.c.path, err)
	}
	r := &decoded{Output: step.NewOutput(), step: step}
	return r, d.again(ctx, r)
}

// again computes a result anew, into the same place.
func (d *decoder) again(ctx context.Context, r *decoded) error {
	start := time.Now()
	if err := d.engine.Decode(ctx, r.step, d.c.q, d.cache.view, r.Output); err != nil {
		return fmt.Errorf("%s: %w", d.c.path, err)
	}
	r.seconds = time.Since(start).Seconds()
	return nil
}
