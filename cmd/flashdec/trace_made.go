package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/flashdec/flashdec/internal/bench"
	"github.com/flashdec/flashdec/internal/gpubench"
	"github.com/flashdec/flashdec/kv"
)

const (
	// raggedPage is the page size of made-up steps whose sequences are not equally
	// long: contiguous ones would all take as much memory as the longest.
	raggedPage = 256
	// placesBytes is how much memory a made-up step is laid out in, at several
	// places, so that it is not read from the processors' caches.
	placesBytes = 256 << 20
)

// madeUp is a step of random numbers.
func (s *tracedStep) madeUp(ctx context.Context, _ *terminal, cmd *traceCmd) error {
	c, err := cmd.made()
	if err != nil {
		return err
	}
	a, err := bench.NewArena(max(c.StoredBytes(), min(placesBytes, cmd.MB<<20)))
	if err != nil {
		return err
	}
	s.closers = append(s.closers, a.Close)
	if s.views, err = a.Views(ctx, c); err != nil {
		return err
	}
	s.describe(c)
	return nil
}

// madeUpOnGPU is the same in the memory of a GPU, which it opens.
func (s *tracedStep) madeUpOnGPU(ctx context.Context, _ *terminal, cmd *traceCmd) error {
	if cmd.Threads != 0 {
		return fmt.Errorf("--threads is %d, but only the CPU has threads to choose", cmd.Threads)
	}
	c, err := cmd.made()
	if err != nil {
		return err
	}
	gpu, err := gpubench.Open(c.StoredBytes())
	if err != nil {
		return fmt.Errorf("backend cuda: %w", err)
	}
	s.backend = gpu
	if s.views, err = gpu.Views(ctx, c); err != nil {
		return errors.Join(err, gpu.Close())
	}
	s.describe(c)
	return nil
}

// describe says what is made up, but for where it lies.
func (s *tracedStep) describe(c *bench.Case) {
	s.title = fmt.Sprintf("%s, %s on %s, head dim %d", describeLens(c.Lens), count(c.Heads, "query head"), count(c.KVHeads, "KV head"), c.Dim)
	if c.Window > 0 {
		s.title += fmt.Sprintf(", window %d", c.Window)
	}
	s.kvDType, s.pageSize, s.kvBytes = c.DType.String(), c.PageSize, c.KVBytes()
	s.batch, s.q = c.Batch(0), c.Query()
}

// made is the case that the flags describe, small enough for --mb.
func (cmd *traceCmd) made() (*bench.Case, error) {
	lens, err := parseLens(cmd.Lens)
	if err != nil {
		return nil, err
	}
	c := &bench.Case{
		Name: cmd.Lens, Heads: cmd.QHeads, KVHeads: cmd.KVHeads, Dim: cmd.HeadDim,
		Lens: lens, PageSize: cmd.PageSize, Window: cmd.Window, DType: kv.F16,
	}
	if cmd.KVDType != "" {
		if c.DType, err = kv.ParseDType(cmd.KVDType); err != nil {
			return nil, err
		}
	}
	shape := c.Shape()
	if err := shape.Validate(); err != nil {
		return nil, err
	}
	longest := slices.Max(lens)
	if longest == 0 {
		return nil, errors.New("--lens has no sequence with a key")
	}
	if c.PageSize == 0 && slices.Min(lens) != longest {
		c.PageSize = raggedPage
	}
	// In float64, since a list of lengths can ask for more than an int counts.
	bytes := 0.0
	for _, n := range lens {
		bytes += (float64(n) + float64(c.PageSize)) * float64(c.KVHeads) * 2 * float64(c.Dim) * float64(c.DType.Bits()) / 8
	}
	if limit := float64(cmd.MB) * (1 << 20); bytes > limit {
		return nil, fmt.Errorf("--lens asks for %.3g bytes of keys and values, want at most %.3g: see --mb", bytes, limit)
	}
	return c, nil
}

// describeLens is a list of lengths in words: "1 sequence of 131072 keys, 63
// sequences of 16 keys".
func describeLens(lens []int) string {
	const most = 3
	text, terms := "", 0
	for i := 0; i < len(lens); terms++ {
		n := 1
		for i+n < len(lens) && lens[i+n] == lens[i] {
			n++
		}
		if terms == most {
			return fmt.Sprintf("%s of %d to %s", count(len(lens), "sequence"), slices.Min(lens), count(slices.Max(lens), "key"))
		}
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf("%s of %s", count(n, "sequence"), count(lens[i], "key"))
		i += n
	}
	return text
}
