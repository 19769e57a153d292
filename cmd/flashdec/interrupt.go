package main

import (
	"context"
	"sync/atomic"
)

// interrupt is how Ctrl-C reaches a verb. One whose Run takes a context is
// cancelled and comes back by itself, with its files in order; it looks at the
// context in every loop that can take long. One that takes none is abandoned at
// once, and must leave nothing behind.
type interrupt struct {
	ctx   context.Context
	taken atomic.Bool // a verb has the context
}

// context is what a verb's Run is given.
func (i *interrupt) context() context.Context {
	i.taken.Store(true)
	return i.ctx
}

// run calls f, and returns before f does when f has not taken the context by the
// time that it is done. abandoned tells that f may still be running.
func (i *interrupt) run(f func() error) (abandoned bool, err error) {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err = <-done:
		return false, err
	case <-i.ctx.Done():
	}
	if i.taken.Load() {
		return false, <-done
	}
	return true, context.Cause(i.ctx)
}
