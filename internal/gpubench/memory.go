// Package gpubench lays the cases of package bench out in a GPU's memory and times
// decode steps there: the command's bench takes its ways from here, its trace the memory.
//
//	memory.go  the memory that cases lie in
//	ways.go    the ways to compute a case, and the bare read
package gpubench

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/internal/bench"
	"github.com/flashdec/flashdec/internal/cuda"
	"github.com/flashdec/flashdec/internal/nv"
	"github.com/flashdec/flashdec/kv"
)

// GPU is an open GPU with memory for cases. It is a [backend.Backend].
type GPU struct {
	*cuda.Backend
	meter  *cuda.Meter
	memory nv.Pointer
	bytes  int
	holds  kv.DType // what the memory is full of, once it is filled
	filled bool
	scales nv.Pointer // scaleRows times float32
	rows   int        // that there are scales for
}

var _ backend.Backend = (*GPU)(nil)

// Open opens the first GPU, with room for cases of at most so many bytes of keys and
// values, and for some of few bytes at several places.
func Open(bytes int) (g *GPU, err error) {
	b, err := cuda.Open(cuda.Config{})
	if err != nil {
		return nil, err
	}
	g = &GPU{Backend: b, bytes: max(bytes, 2*cuda.LeastBytes)}
	if g.meter, err = b.NewMeter(); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	err = b.Do(func() (err error) {
		g.memory, err = b.Context().Alloc(g.bytes)
		return err
	})
	if err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// Close implements [backend.Backend].
func (g *GPU) Close() error {
	err := g.Do(func() error {
		return errors.Join(g.Context().Free(g.memory), g.Context().Free(g.scales))
	})
	return errors.Join(err, g.meter.Close(), g.Backend.Close())
}

// align is what the planes of a place begin at a multiple of.
const align = 256

// place is how a case lies in the memory: half its bytes are keys, half values.
type place struct {
	half  int // bytes of one plane
	apart int // from one place to the next
	count int
}

// places are as many as it takes for no step to find its keys in the L2 cache, as far
// as they fit. Those of a windowed case overlap, but what their queries see does not.
func (g *GPU) places(c *bench.Case) (place, error) {
	var p place
	p.half = (c.StoredRows()*c.RowBytes() + align - 1) / align * align
	p.apart = 2 * p.half
	if p.apart > g.bytes {
		return p, fmt.Errorf("case %q needs %d bytes of keys and values, but there are %d", c.Name, p.apart, g.bytes)
	}
	most := math.MaxInt
	if c.Window > 0 && c.PageSize == 0 && len(c.Lens) == 1 {
		p.apart = (c.Window*c.RowBytes() + align - 1) / align * align
		most = max(1, c.Lens[0]/c.Window-1)
	}
	enough := (cuda.LeastBytes + c.KVBytes() - 1) / c.KVBytes()
	p.count = max(1, min(enough, most, (g.bytes-2*p.half)/p.apart+1))
	return p, nil
}

// Views lays the case out at several places, in memory filled with elements of its
// type.
func (g *GPU) Views(ctx context.Context, c *bench.Case) ([]kv.View, error) {
	p, err := g.places(c)
	if err != nil {
		return nil, err
	}
	rows := c.StoredRows()
	if err := errors.Join(g.fill(c.DType), g.scale(c, max(2*rows*p.count, g.bytes/c.RowBytes()))); err != nil {
		return nil, err
	}
	views := make([]kv.View, p.count)
	for i := range views {
		v := c.View()
		for half, plane := range []*kv.Plane{&v.K, &v.V} {
			plane.Device = kv.Memory{Address: uint64(g.memory) + uint64(i*p.apart+half*p.half), Bytes: p.half}
			if plane.Scales.Kind != kv.NoScales {
				plane.Scales.Device = kv.Memory{Address: uint64(g.scales) + uint64(4*rows*(2*i+half)), Bytes: 4 * rows}
			}
		}
		if err := v.Validate(); err != nil {
			return nil, err
		}
		views[i] = v
	}
	return views, ctx.Err()
}

// fill writes [bench.Numbers] of a type everywhere, unless they are there.
func (g *GPU) fill(t kv.DType) error {
	if g.filled && g.holds == t {
		return nil
	}
	g.holds, g.filled = t, true
	block := bench.Numbers(t)
	block = block[:min(len(block), g.bytes)]
	return g.Do(func() error {
		err := nv.Upload(g.Stream(), g.memory, block)
		for done := len(block); done < g.bytes; done *= 2 {
			err = errors.Join(err, g.Stream().Copy(g.memory+nv.Pointer(done), g.memory, min(done, g.bytes-done)))
		}
		return err
	})
}

// scale sees to so many scales, each of which undoes the gain of the codes. There are
// as many as rows fit, so that they stay where they are for other cases of such rows.
func (g *GPU) scale(c *bench.Case, rows int) error {
	if !c.DType.Quantised() {
		return nil
	}
	return g.Do(func() (err error) {
		if g.rows < rows {
			if err := errors.Join(g.Stream().Synchronize(), g.Context().Free(g.scales)); err != nil {
				return err
			}
			g.rows = 0
			if g.scales, err = g.Context().Alloc(4 * rows); err != nil {
				return err
			}
			g.rows = rows
		}
		return g.Stream().Fill32(g.scales, math.Float32bits(1/bench.Gain(c.DType)), rows)
	})
}
