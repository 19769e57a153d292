package main

import (
	"context"
	"runtime"
	"sync/atomic"
)

// interrupt is how Ctrl-C reaches a verb. One whose Run takes a context is
// cancelled and comes back by itself, with its files in order; it looks at the
// context in every loop that can take long. One that takes none is abandoned at
// once, and must leave nothing behind.
type interrupt struct {
	ctx   context.Context
	state atomic.Int32
}

// The states of an interrupt. It leaves the first once, to one of the others.
const (
	untaken   = iota
	taken     // a verb has the context
	abandoned // and none will have it
)

// context is what a verb's Run is given. It does not return to a verb that was
// abandoned before it began, whose goroutine ends.
func (i *interrupt) context() context.Context {
	i.state.CompareAndSwap(untaken, taken)
	if i.state.Load() == abandoned {
		runtime.Goexit()
	}
	return i.ctx
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
	if i.state.CompareAndSwap(untaken, abandoned) {
		return true, context.Cause(i.ctx)
	}
	return false, <-done
}
