package cpu_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/flashdec/flashdec/backend/backendtest"
	"github.com/flashdec/flashdec/internal/cpu"
)

// TestCloseStopsWorkers: a backend's goroutines end with it.
func TestCloseStopsWorkers(t *testing.T) {
	before := runtime.NumGoroutine() // and perhaps some of other tests that are about to end
	b := cpu.NewEager(cpu.Options{Threads: 9})
	l := launch(t, b, func(*backendtest.Case) {})
	if err := b.Decode(context.Background(), l); err != nil {
		t.Fatal(err)
	}
	if n := b.Started(); n != 8 {
		t.Errorf("9 threads are the caller and %d workers, want 8", n)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) { // a goroutine counts for a moment after its last line
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines are left", runtime.NumGoroutine()-before)
		}
	}
}

// TestSmallLaunchesWakeNobody: neither one item, nor little work, nor a single
// thread starts a worker.
func TestSmallLaunchesWakeNobody(t *testing.T) {
	for name, x := range map[string]struct {
		threads int
		change  func(*backendtest.Case)
	}{
		"one item": {8, func(c *backendtest.Case) {
			c.Shape.NumHeads, c.Shape.NumKVHeads, c.NumSplits = 1, 1, 1
			c.Lens, c.Queries, c.Options.Slopes, c.Options.Sinks = []int{9000}, nil, nil, nil
			c.Shape.KeyDim, c.Shape.ValueDim = 128, 128
		}},
		"little work": {8, func(c *backendtest.Case) { c.Lens = []int{40, 100, 0} }},
		"one thread":  {1, func(*backendtest.Case) {}},
	} {
		b := cpu.New(cpu.Options{Threads: x.threads})
		if err := b.Decode(context.Background(), launch(t, b, x.change)); err != nil {
			t.Fatal(err)
		}
		if n := b.Started(); n > 0 {
			t.Errorf("%s: %d workers were started, want none", name, n)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

// late is a context that is done just after somebody has asked whether it is.
type late struct {
	context.Context
	asked *int
}

var errLate = errors.New("late")

func (c late) Err() error {
	if *c.asked++; *c.asked == 1 {
		return nil
	}
	return c.Context.Err()
}

// TestCancelIsSeenWithinATile: a decode whose context is done computes no tile
// more.
func TestCancelIsSeenWithinATile(t *testing.T) {
	for _, threads := range []int{1, 4} {
		b := cpu.NewEager(cpu.Options{Threads: threads})
		l := launch(t, b, func(*backendtest.Case) {})
		for i := range l.Out {
			l.Out[i] = 7
		}
		done, cancel := context.WithCancelCause(context.Background())
		cancel(errLate)
		if err := b.Decode(late{done, new(int)}, l); !errors.Is(err, errLate) {
			t.Errorf("%d threads: Decode returns %v, want the cause", threads, err)
		}
		heads := l.Shape.NumHeads * l.Shape.ValueDim
		for i, x := range l.Out[:len(l.Out)-heads] { // the last sequence has no key, and needs no tile
			if x != 7 {
				t.Fatalf("%d threads: out[%d] is written after the context is done", threads, i)
			}
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestUnknownTypeIsAnError(t *testing.T) {
	b := cpu.New(cpu.Options{})
	defer b.Close()
	l := launch(t, b, func(*backendtest.Case) {})
	l.KV.V.Type = 200
	if err := b.Decode(context.Background(), l); err == nil {
		t.Error("values of an unknown type are decoded")
	}
}

func TestInfo(t *testing.T) {
	b := cpu.New(cpu.Options{Threads: 3})
	defer b.Close()
	info := b.Info()
	if info.Name != "cpu" || info.Device == "" || info.Kernel == "" || info.Width != 3 || info.QueryTile < 1 {
		t.Errorf("the backend says of itself %+v", info)
	}
	all := cpu.New(cpu.Options{})
	defer all.Close()
	if got, want := all.Info().Width, runtime.GOMAXPROCS(0); got != want {
		t.Errorf("0 threads are %d, want GOMAXPROCS, %d", got, want)
	}
}
