package model

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/flashdec/flashdec/gguf"
	"github.com/flashdec/flashdec/internal/simd"
)

// crew is the goroutines that compute a step beside its caller. Between two jobs of a step they look for
// the next one instead of sleeping, for a token takes hundreds of jobs of microseconds; left alone, they
// sleep. A job never waits for who has not joined it.
type crew struct {
	seats []*seat // the caller's first

	scores     [simd.NumElems]simd.ScoresFunc
	accumulate [simd.NumElems]simd.AccumulateFunc
	dots       map[gguf.Type]simd.DotFunc // of types whose rows the kernels read where they lie

	// state is the job's number, whether it is open, and how many joined. What follows is written before
	// a job opens and read by those who joined alone.
	state    atomic.Uint64
	do       func(s *seat, task int)
	tasks    int64
	next     atomic.Int64
	finished atomic.Int64

	mu       sync.Mutex
	wake     sync.Cond
	sleeping atomic.Int32
	closed   atomic.Bool
	helpers  sync.WaitGroup
}

// seat is one goroutine's memory.
type seat struct {
	crew    *crew
	off     [2][simd.TileKeys]int // lists of rows
	scratch []float32             // rows of a quantised matrix, widened
	columns []float32             // part of a product with a matrix that is stored by columns
}

const (
	jobOpen   = 1 << 31
	jobNumber = 1 << 32

	// A helper looks this often before it sleeps, giving way to other goroutines each so many looks: some
	// 30 microseconds, as long as it takes to wake one.
	looksPerTurn = 32
	turns        = 200
)

func newCrew(threads int) *crew {
	c := &crew{seats: make([]*seat, threads)}
	c.wake.L = &c.mu
	for i := range c.seats {
		c.seats[i] = &seat{crew: c}
	}
	for e := range simd.Elem(simd.NumElems) {
		c.scores[e], c.accumulate[e] = simd.Scores(e), simd.Accumulate(e)
	}
	c.dots = map[gguf.Type]simd.DotFunc{
		gguf.Q4_0: simd.Dot(simd.Q4_0), gguf.Q4_1: simd.Dot(simd.Q4_1), gguf.Q8_0: simd.Dot(simd.Q8_0),
	}
	for _, s := range c.seats[1:] {
		c.helpers.Add(1)
		go c.serve(s)
	}
	return c
}

// run does tasks 0 to n−1, each once, and returns when all are done. One caller at a time.
func (c *crew) run(n int, do func(s *seat, task int)) {
	if n == 1 || len(c.seats) == 1 {
		for i := range n {
			do(c.seats[0], i)
		}
		return
	}
	c.do, c.tasks = do, int64(n)
	c.next.Store(0)
	c.finished.Store(0)
	c.state.Store(c.state.Load()&^(jobNumber-1) + jobNumber | jobOpen)
	if c.sleeping.Load() > 0 {
		c.mu.Lock()
		c.wake.Broadcast()
		c.mu.Unlock()
	}
	c.work(c.seats[0])
	joined := int64(c.state.And(^uint64(jobOpen)) & (jobOpen - 1))
	for i := 1; c.finished.Load() != joined; i++ {
		if i%looksPerTurn == 0 {
			runtime.Gosched()
		}
	}
	c.do = nil
}

func (c *crew) work(s *seat) {
	for {
		i := c.next.Add(1) - 1
		if i >= c.tasks {
			return
		}
		c.do(s, int(i))
	}
}

// serve is a helper's life.
func (c *crew) serve(s *seat) {
	defer c.helpers.Done()
	last := uint64(0) // job seen
	for idle := 0; !c.closed.Load(); idle++ {
		state := c.state.Load()
		if state&jobOpen != 0 && state/jobNumber != last {
			if c.state.CompareAndSwap(state, state+1) {
				last = state / jobNumber
				c.work(s)
				c.finished.Add(1)
				idle = 0
			}
			continue
		}
		if idle%looksPerTurn == looksPerTurn-1 {
			runtime.Gosched()
		}
		if idle == looksPerTurn*turns {
			c.sleep(last)
			idle = 0
		}
	}
}

// sleep waits for a job that is not the last one seen. Who opens one looks for sleepers after it has
// opened, and who goes to sleep looks for jobs after it has said so: one of them sees the other.
func (c *crew) sleep(last uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sleeping.Add(1)
	defer c.sleeping.Add(-1)
	for {
		state := c.state.Load()
		if c.closed.Load() || state&jobOpen != 0 && state/jobNumber != last {
			return
		}
		c.wake.Wait()
	}
}

// close stops the helpers. No job may be running.
func (c *crew) close() {
	c.closed.Store(true)
	c.mu.Lock()
	c.wake.Broadcast()
	c.mu.Unlock()
	c.helpers.Wait()
}
