// Package cpu computes decode attention on goroutines.
//
// A launch goes through these stages, a file each:
//
//	pool.go    who works: the decode's caller and the workers that it wakes
//	job.go     what is shared by those who work on one launch
//	task.go    what a worker takes at once: items of heads and splits
//	share.go   which tasks a worker begins with, before it takes others'
//	item.go    a task: query tiles against keys, in chunks of sweeps
//	stream.go  one item under way: its running sums, and the states they become
//	kernels.go which kernels they call
//	gather.go  where the rows of a sweep's keys lie
//	sweep.go   the steps of a sweep: scores, weights, sums
//	visible.go which rows see which of its keys
//	ahead.go   what is fetched meanwhile
//	scale.go   the scales of quantised keys and values
//	score.go   the score rules
//	merge.go   chunks into items, items into units, units into results
//	states.go  where states wait in between
//	trace.go   who did what, and when
package cpu

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/internal/simd"
)

// Options configure a backend. The zero value uses GOMAXPROCS threads.
type Options struct {
	// Threads is how many goroutines, a decode's caller counted, work on one
	// launch. 0 is GOMAXPROCS.
	Threads int
	// HelperWork is how many multiply-adds make a helper worth waking; half as many
	// do where a step ended just before. 0 is [HelperWork].
	HelperWork int
}

// Backend is a [backend.Backend] on this machine's processors.
type Backend struct {
	threads    int
	helperWork int // see the constant
	device     func() string
	lib        *library
	pool       *pool
}

var _ backend.Assisted = (*Backend)(nil)

// New returns a backend. It starts no goroutine before a decode wants one; Close
// stops those that were started.
func New(opt Options) *Backend {
	threads := opt.Threads
	if threads < 1 {
		threads = runtime.GOMAXPROCS(0)
	}
	work := opt.HelperWork
	if work < 1 {
		work = HelperWork
	}
	return &Backend{threads: threads, helperWork: work, device: sync.OnceValue(deviceName), lib: newLibrary(), pool: newPool()}
}

// Info implements [backend.Backend].
func (b *Backend) Info() backend.Info {
	return backend.Info{
		Name:      "cpu",
		Device:    b.device(),
		Kernel:    simd.Level(),
		Width:     b.threads,
		QueryTile: queryTile,
		HeadTile:  sideBySide,
		Traces:    true,

		RoundedGroup: b.lib.roundedGroup(simd.BF16), RoundedGroup8: b.lib.roundedGroup(simd.E4M3),
	}
}

// Decode implements [backend.Backend]. The error of a cancelled decode is the
// context's cause. In steady state it allocates nothing.
func (b *Backend) Decode(ctx context.Context, l *backend.Launch) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := l.KV.OnHost(); err != nil {
		return err
	}
	j, err := b.pool.take()
	if err != nil {
		return err
	}
	defer b.pool.put(j)
	helpers, _ := Helpers(l.Shape, l.Plan.Items, b.threads, b.perHelper(b.pool.now()))
	if err := j.prepare(l, ctx.Done(), b.lib, helpers+1); err != nil {
		return err
	}
	j.record(b.threads)
	b.pool.run(j, helpers)
	j.recorder.end()
	if err := j.fault(helpers + 1); err != nil {
		return err
	}
	if j.stopped.Load() {
		return context.Cause(ctx)
	}
	return nil
}

// Assist implements [backend.Assisted].
func (b *Backend) Assist(until func() bool) bool { return b.pool.host(until) }

// perHelper is how many multiply-adds a helper is worth calling for: fewer of them where
// steps follow one another, so that those who helped last are still awake, and few where
// a guest is there already.
func (b *Backend) perHelper(now time.Duration) int {
	if b.pool.guests.Load() > 0 {
		return max(1, b.helperWork/guestWork)
	}
	if b.pool.hot(now) {
		return max(1, b.helperWork/hotWork)
	}
	return b.helperWork
}

// Close implements [backend.Backend]. Decodes under way finish, on their
// callers' goroutines.
func (b *Backend) Close() error { return b.pool.close() }
