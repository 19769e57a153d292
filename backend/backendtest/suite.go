package backendtest

import (
	"testing"

	"github.com/flashdec/flashdec/backend"
)

// config is what the suite knows of the backend under test.
type config struct {
	open         func(testing.TB) backend.Backend
	openThreads  func(testing.TB, int) backend.Backend
	info         backend.Info // the backend's
	sparse       bool
	plainTypes   bool
	runsToTheEnd bool
}

// Option changes what the suite asks of a backend.
type Option func(*config)

// WithThreads lets the suite open backends of a given number of threads, to
// compare their bits.
func WithThreads(open func(tb testing.TB, threads int) backend.Backend) Option {
	return func(c *config) { c.openThreads = open }
}

// ReadsInPlace is for a backend that reads a view's memory where it lies, so that
// it can be given many gigabytes of address space of which it needs little.
func ReadsInPlace() Option { return func(c *config) { c.sparse = true } }

// WithoutQuantised is for a backend that takes no quantised types. It has to
// refuse them.
func WithoutQuantised() Option { return func(c *config) { c.plainTypes = true } }

// RunsToTheEnd is for a backend that cannot stop a step once it has started: it
// looks at the context before it starts, and steps that take hours are left out.
func RunsToTheEnd() Option { return func(c *config) { c.runsToTheEnd = true } }

// test is one test of the suite, on a backend that others use, too.
type test struct {
	name string
	run  func(*config, *testing.T, backend.Backend)
}

// Run puts a backend through the suite. open opens one; the suite closes it.
func Run(t *testing.T, open func(testing.TB) backend.Backend, opts ...Option) {
	c := &config{open: open}
	for _, o := range opts {
		o(c)
	}
	b := open(t)
	c.info = b.Info()
	for _, group := range [...]struct {
		name  string
		tests []test
	}{
		{"Sweep", sweeps},
		{"Rule", rules},
		{"Empty", empties},
		{"Memory", memories},
		{"Numbers", numbers},
		{"Law", laws},
		{"Bits", bits},
		{"Quantised", c.quantised()},
		{"Trace", traces},
		{"Life", lives},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, x := range group.tests {
				t.Run(x.name, func(t *testing.T) { x.run(c, t, b) })
			}
		})
	}
	if err := b.Close(); err != nil {
		t.Errorf("closing the backend: %v", err)
	}
}
