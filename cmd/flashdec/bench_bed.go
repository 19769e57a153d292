package main

import (
	"context"
	"fmt"
	"io"

	"github.com/flashdec/flashdec"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/internal/bench"
	"github.com/flashdec/flashdec/internal/cpu"
	"github.com/flashdec/flashdec/internal/gpubench"
	"github.com/flashdec/flashdec/internal/simd"
	"github.com/flashdec/flashdec/kv"
)

// benchBed is where cases lie and are measured.
type benchBed interface {
	ways(ctx context.Context, r *benchRun) (*benchWays, error)
	io.Closer
}

// benchWays are the ways to compute a case, the bare read first.
type benchWays struct {
	io.Closer
	list  []*bench.Impl
	info  backend.Info // of what computes them
	tuned string       // what was found for it
	gpus  int
}

func (cmd *benchCmd) openBed(u *tuner) (benchBed, error) {
	if cmd.on() == "cuda" {
		gpu, err := gpubench.Open(cmd.bytes())
		if err != nil {
			return nil, fmt.Errorf("backend cuda: %w", err)
		}
		return &gpuBed{gpu, u}, nil
	}
	return &cpuBed{bench.NewArenas(cmd.bytes()), u}, nil
}

// cpuBed opens an engine a case, on its number of threads.
type cpuBed struct {
	*bench.Arenas
	tuner *tuner
}

func (b *cpuBed) ways(ctx context.Context, r *benchRun) (*benchWays, error) {
	arena, err := b.Of(r.c.DType)
	if err != nil {
		return nil, err
	}
	eng, info, found, err := openAt(&r.c, r.threads, b.tuner)
	if err != nil {
		return nil, err
	}
	list, err := bench.Impls(ctx, &r.c, arena, r.threads, eng)
	if err != nil {
		_ = eng.Close() // err is the failure to report
		return nil, err
	}
	return &benchWays{Closer: eng, list: list, info: info, tuned: found.tells()}, nil
}

// openAt opens an engine on the CPU whose kernels are of a case's level, "" for the
// best, with what was found for it. It says what the engine is at that level:
// later, the engine no longer knows.
func openAt(c *bench.Case, threads int, u *tuner) (eng *flashdec.Engine, info backend.Info, found tuned, err error) {
	if c.Level != "" {
		restore, err := simd.SetLevel(c.Level)
		if err != nil {
			return nil, info, found, err
		}
		defer restore()
	}
	info = cpu.New(cpu.Options{Threads: threads}).Info()
	found = u.find(info, c.Dim, c.Dim, c.Heads/c.KVHeads, [2]kv.DType{c.DType, c.DType})
	_, eng, err = found.open(threads)
	return eng, info, found, err
}

// gpuBed is a GPU with room for every case.
type gpuBed struct {
	*gpubench.GPU
	tuner *tuner
}

func (b *gpuBed) ways(ctx context.Context, r *benchRun) (*benchWays, error) {
	c, info := &r.c, b.Info()
	found := b.tuner.find(info, c.Dim, c.Dim, c.Heads/c.KVHeads, [2]kv.DType{c.DType, c.DType})
	eng, err := found.engine(b.GPU) // not closed: the GPU is, and other cases have it, too
	if err != nil {
		return nil, err
	}
	w, err := b.Ways(ctx, c, eng)
	if err != nil {
		return nil, err
	}
	return &benchWays{Closer: w, list: w.List, info: info, tuned: found.tells(), gpus: 1}, nil
}
