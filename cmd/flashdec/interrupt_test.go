package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// A verb that has not taken the context is not waited for; one that has, is.
func TestInterruptAbandonsOnlyWhatCannotBeCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	i := &interrupt{ctx: ctx}
	forever := make(chan struct{})
	defer close(forever)
	time.AfterFunc(10*time.Millisecond, cancel)
	abandoned, err := i.run(func() error { <-forever; return nil })
	if !abandoned || !errors.Is(err, context.Canceled) {
		t.Errorf("abandoned %t, %v, want what never ends abandoned", abandoned, err)
	}

	ctx, cancel = context.WithCancel(context.Background())
	i = &interrupt{ctx: ctx}
	abandoned, err = i.run(func() error {
		ctx := i.context()
		cancel()
		time.Sleep(10 * time.Millisecond) // cleans up
		return context.Cause(ctx)
	})
	if abandoned || !errors.Is(err, context.Canceled) {
		t.Errorf("abandoned %t, %v, want what cleans up waited for", abandoned, err)
	}
}

// TestInterruptWaitsForWhatIsUnbroken: a verb that is abandoned while it writes a file has written it, and goes no
// further.
func TestInterruptWaitsForWhatIsUnbroken(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	i := &interrupt{ctx: ctx}
	written, ended := false, make(chan bool)
	abandoned, err := i.run(func() error {
		more := false
		defer func() { ended <- more }()
		if err := i.unbroken(func() error {
			cancel()
			time.Sleep(10 * time.Millisecond)
			written = true
			return nil
		}); err != nil {
			return err
		}
		for range 5000 { // until it is abandoned
			_ = i.unbroken(func() error { return nil })
			time.Sleep(time.Millisecond)
		}
		more = true
		return nil
	})
	if !abandoned || !errors.Is(err, context.Canceled) || !written {
		t.Errorf("abandoned %t, %v, written %t, want it abandoned when it had written", abandoned, err, written)
	}
	if <-ended {
		t.Error("an abandoned verb did more")
	}
}

// TestModelsAreAbandonedUntilTheyCompute: a verb that loads a model, reads a text and turns it into tokens, which takes
// seconds of a long one, is not waited for.
func TestModelsAreAbandonedUntilTheyCompute(t *testing.T) {
	stdin := os.Stdin
	defer func() { os.Stdin = stdin }()
	for _, args := range [][]string{
		{"generate", goldenModels + "qwen2", "-"},
		{"perplexity", goldenModels + "qwen2", "-"},
		{"logits", goldenModels + "qwen2", "-", "-o", filepath.Join(t.TempDir(), "logits.npz")},
	} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		os.Stdin = r
		ctx, cancel := context.WithCancel(context.Background())
		i, ended := &interrupt{ctx: ctx}, make(chan struct{})
		go func() { // no pipe takes as much at once: when this ends, the verb has begun to read
			_, _ = w.Write(make([]byte, 1<<20))
			cancel()
		}()
		late := time.AfterFunc(patience, func() { _ = w.Close() }) // ends one that is waited for
		abandoned, err := i.run(func() error {
			defer close(ended)
			return dispatch(i, newTerminal(io.Discard, io.Discard), args)
		})
		if !abandoned || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: abandoned %t, %v, want it abandoned while it reads its text", args[0], abandoned, err)
		}
		late.Stop()
		_ = w.Close()
		<-ended
	}
}

// TestAbandonedVerbsDoNothing: one that comes to take the context when it has been abandoned goes no further.
func TestAbandonedVerbsDoNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	i := &interrupt{ctx: ctx}
	ended, begins := make(chan bool), make(chan struct{})
	abandoned, err := i.run(func() error {
		began := false
		defer func() { ended <- began }()
		<-begins
		_ = i.context()
		began = true
		return nil
	})
	if !abandoned || !errors.Is(err, context.Canceled) {
		t.Errorf("abandoned %t, %v, want what has not begun abandoned", abandoned, err)
	}
	close(begins)
	if <-ended {
		t.Error("a verb has begun after it was abandoned")
	}
}

// TestInterruptIsQuick sends the signal to verbs that compute for long without
// looking up.
func TestInterruptIsQuick(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no signal that one process can send to another")
	}
	f := goodFile()
	clear(f.metadata)
	clear(f.tensors)
	const keys = 1 << 22
	f.put("q", 1, 1, 1, 1)
	f.put("k", 1, 1, keys, 1)
	f.put("v", 1, 1, keys, 1)
	path := f.write(t, t.TempDir()+"/long.safetensors")
	f.put("q", 1, 16, 512, 32) // one part, whose direct softmax takes seconds
	f.put("k", 1, 1, 40_000, 32)
	f.put("v", 1, 1, 40_000, 32)
	wide := f.write(t, t.TempDir()+"/wide.safetensors")
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	for i, args := range [][]string{
		{"plan", "--lens=1x1000000", "--q-heads=16", "--kv-heads=16", "--head-dim=128"},
		{"plan", "--lens=1x1000000", "--q-heads=16", "--kv-heads=16", "--head-dim=128", "--json"},
		{"explain", path, "--splits=1"},
		{"run", wide},
		{"verify", wide},
	} {
		var took time.Duration
		var state *os.ProcessState
		var stderr string
		// A process that the signal ends had not asked for it yet: a slow machine takes long to start one.
		for begins := 200 * time.Millisecond; begins < patience; begins *= 2 {
			if took, state, stderr = interruptAfter(t, signals[i%len(signals)], begins, args...); state.ExitCode() != -1 {
				break
			}
		}
		// One that is not quick is done with its work, and its exit code says so. This bounds the rest: a busy
		// machine may take some time to stop a process with much memory.
		const limit = 10 * time.Second
		if took > limit {
			t.Errorf("%s: ended %v after the signal, want at most %v", args, took, limit)
		}
		if code := state.ExitCode(); code != exitInterrupted || stderr != "flashdec: interrupted\n" {
			t.Errorf("%s: exit %d (%v), stderr %q, want %d and one line", args, code, state, stderr, exitInterrupted)
		}
	}
}

// interruptAfter runs the command and, some time after its start, interrupts it. It tells how long the end took
// from there on.
func interruptAfter(t *testing.T, signal os.Signal, begins time.Duration, args ...string) (took time.Duration, state *os.ProcessState, stderr string) {
	t.Helper()
	var errs bytes.Buffer
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "FLASHDEC_TEST_MAIN=1")
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(begins)
	sent := time.Now()
	if err := cmd.Process.Signal(signal); err != nil {
		t.Errorf("%s: %v: it ended too soon for this test", args, err)
	}
	_ = cmd.Wait() // the exit code tells
	return time.Since(sent), cmd.ProcessState, prose(&errs)
}
