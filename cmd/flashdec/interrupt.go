package main

import (
	"context"
	"runtime"
	"sync"
)

// interrupt is how Ctrl-C reaches a verb. One that has taken the context is
// cancelled and comes back by itself, with its files in order; it looks at the
// context in every loop that can take long. One that has not is abandoned at
// once: up to there it must leave nothing behind, but for what it does unbroken.
type interrupt struct {
	ctx context.Context

	mu        sync.Mutex // held while the verb does what must not break off
	taken     bool       // the verb has the context
	abandoned bool       // and will never have it
}

// context is what a verb takes when it comes to work that looks up, or is given
// before it begins. It does not return to a verb that was abandoned, whose
// goroutine ends.
func (i *interrupt) context() context.Context {
	_ = i.unbroken(func() error {
		i.taken = true
		return nil
	})
	return i.ctx
}

// unbroken runs f, which would leave something behind were the verb abandoned
// within it, and must be short. It does not return to a verb that was abandoned
// before.
func (i *interrupt) unbroken(f func() error) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.abandoned {
		runtime.Goexit()
	}
	return f()
}

// run calls f, and returns before f does when f has not taken the context by the
// time that it is done. abandons tells that f may still be running.
func (i *interrupt) run(f func() error) (abandons bool, err error) {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err = <-done:
		return false, err
	case <-i.ctx.Done():
	}
	if i.abandon() {
		return true, context.Cause(i.ctx)
	}
	return false, <-done
}

// abandon tells whether the verb is abandoned now, when what it does unbroken is done.
func (i *interrupt) abandon() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.abandoned = !i.taken
	return i.abandoned
}
