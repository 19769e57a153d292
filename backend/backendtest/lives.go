package backendtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/kv"
)

var lives = []test{
	{"ManyDecodesAtOnce", (*config).lifeConcurrent},
	{"TwoBackendsAtOnce", (*config).lifeTwoBackends},
	{"OddThreadCounts", (*config).lifeThreads},
	{"CancelledBefore", (*config).lifeCancelledBefore},
	{"CancelledWithin", (*config).lifeCancelledWithin},
	{"DecodesAfterCancelling", (*config).lifeAfterCancel},
	{"CloseWhileIdle", (*config).lifeClose},
	{"CloseWhileDecoding", (*config).lifeCloseBusy},
}

// lifeConcurrent: decodes of several goroutines, each with its own step, share
// one backend and nothing else.
func (c *config) lifeConcurrent(t *testing.T, b backend.Backend) {
	if err := c.hammer(8, 10, func(int) backend.Backend { return b }); err != nil {
		t.Error(err)
	}
}

func (c *config) lifeTwoBackends(t *testing.T, b backend.Backend) {
	other := c.open(t)
	defer other.Close()
	if err := c.hammer(4, 10, func(i int) backend.Backend {
		if i%2 == 0 {
			return b
		}
		return other
	}); err != nil {
		t.Error(err)
	}
}

// hammer decodes n different steps at once, each several times or until it fails.
func (c *config) hammer(n, times int, on func(int) backend.Backend) error {
	errs := make([]error, n)
	var running sync.WaitGroup
	for i := range n {
		cs := small(counts(1+i%3, 200+200*i)...)
		cs.Seed = uint64(i)
		cs.NumSplits = i % 4
		s := cs.Build()
		running.Go(func() {
			for range times {
				r, err := decode(on(i), s)
				if err == nil {
					err = c.judge(s, r)
				}
				if err != nil {
					errs[i] = fmt.Errorf("%v: %w", s.Case, err)
					return
				}
			}
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// lifeThreads: more threads than processors, than items, than keys.
func (c *config) lifeThreads(t *testing.T, _ backend.Backend) {
	c.needThreads(t)
	for i, threads := range []int{1, 3, 7, 15, 16, 31} {
		c.withThreads(t, threads, func(b backend.Backend) {
			for _, n := range []int{1, 20, 512, 8192} {
				cs := small(n)
				cs.Shape.NumKVHeads = turn([]int{1, 2, 8}, i)
				cs.Shape.NumHeads = 8
				c.verify(t, b, cs)
			}
		})
	}
}

var errStop = errors.New("the caller had enough")

func (c *config) lifeCancelledBefore(t *testing.T, b backend.Backend) {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errStop)
	if err := decodeUntil(ctx, b, small(300).Build()); !errors.Is(err, errStop) {
		t.Errorf("Decode under a cancelled context returns %v, want its cause", err)
	}
}

func decodeUntil(ctx context.Context, b backend.Backend, s *Step) error {
	p, err := s.Plan(b.Info())
	if err != nil {
		return err
	}
	l := s.Launch(p)
	l.Out = make([]float32, l.NumQueries()*s.Case.Shape.NumHeads*s.Case.Shape.ValueDim)
	if err := l.Validate(); err != nil {
		return err
	}
	return b.Decode(ctx, l)
}

// endless is a step that takes a processor hours (seconds, where an int has 32 bits
// only): all keys are the same row.
func endless() *Step {
	cs := small(1)
	cs.Name = "endless"
	cs.Shape = attn.Shape{NumHeads: 8, NumKVHeads: 1, KeyDim: 128, ValueDim: 128}
	s := cs.Build()
	cs.Lens = []int{1 << min(33, strconv.IntSize-8)} // 2²⁴ where an int has no more than 32 bits
	s.Case = &cs
	s.View.Seqs = []kv.Table{{Pages: []kv.PageID{s.View.Seqs[0].Pages[0]}, Len: cs.Lens[0]}}
	s.View.PageSize = cs.Lens[0]
	s.View.K.SlotStride, s.View.V.SlotStride = 0, 0
	return s
}

// soon is how long a decode may take to notice that it is cancelled, on a machine
// that is slow and has other things to do, too. A tile takes microseconds.
const soon = 30 * time.Second

func (c *config) lifeCancelledWithin(t *testing.T, b backend.Backend) {
	if c.runsToTheEnd {
		t.Skip("this backend does not stop a step that has started")
	}
	s := endless()
	for _, splits := range []int{0, 1} {
		s.Case.NumSplits = splits
		ctx, cancel := context.WithCancelCause(context.Background())
		var cancelled time.Time
		timer := time.AfterFunc(20*time.Millisecond, func() {
			cancelled = time.Now()
			cancel(errStop)
		})
		err := decodeUntil(ctx, b, s)
		timer.Stop()
		if !errors.Is(err, errStop) {
			t.Fatalf("Decode returns %v, want the cause of its cancelling", err)
		}
		if late := time.Since(cancelled); late > soon {
			t.Errorf("Decode returned %v after it was cancelled", late)
		}
	}
}

// lifeAfterCancel: what a cancelled decode leaves behind does not count.
func (c *config) lifeAfterCancel(t *testing.T, b backend.Backend) {
	if c.runsToTheEnd {
		t.Skip("this backend does not stop a step that has started")
	}
	for _, splits := range []int{0, 5} {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
		err := decodeUntil(ctx, b, endless())
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Decode past its deadline returns %v", err)
		}
		cs := mixed()
		cs.NumSplits = splits
		c.verify(t, b, cs)
	}
}

func (c *config) lifeClose(t *testing.T, _ backend.Backend) {
	b := c.open(t)
	s := small(300).Build()
	c.verifyStep(t, b, s)
	if err := b.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if err := decodeUntil(context.Background(), b, s); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("Decode after Close returns %v, want ErrClosed", err)
	}
	if err := b.Close(); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("a second Close returns %v, want ErrClosed", err)
	}
}

// lifeCloseBusy: decodes that a close overtakes are right, or not done at all.
func (c *config) lifeCloseBusy(t *testing.T, _ backend.Backend) {
	b := c.open(t)
	closed := make(chan error)
	time.AfterFunc(2*time.Millisecond, func() { closed <- b.Close() })
	if err := c.hammer(4, math.MaxInt, func(int) backend.Backend { return b }); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("decoding until the close yields %v, want ErrClosed", err)
	}
	if err := <-closed; err != nil {
		t.Errorf("Close: %v", err)
	}
}
