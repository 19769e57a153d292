package model

import (
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/flashdec/flashdec/gguf"
	"github.com/flashdec/flashdec/internal/filemap"
	"github.com/flashdec/flashdec/internal/simd"
)

// crew is the goroutines that compute a step beside its caller. While a step is under way they look for
// its next job instead of sleeping, for a token takes hundreds of jobs of microseconds; between steps, left
// alone, they sleep. A job never waits for who has not joined it.
type crew struct {
	seats []*seat // the caller's first

	scores     [simd.NumElems]simd.ScoresFunc
	accumulate [simd.NumElems]simd.AccumulateFunc
	streams    [simd.NumElems]simd.RowsFunc // nil where there is none
	dots       [gguf.Q6_K + 1]simd.DotFunc  // of types whose rows the kernels read where they lie
	rowByRow   bool                         // a row's products are the same bits whatever rows are beside it

	// state is the job's number, whether it is open, and how many joined. What follows is written before
	// a job opens and read by those who joined alone: who sees the one has the line of the other.
	_     [64]byte
	state atomic.Uint64
	do    func(s *seat, lo, hi int) // tasks lo to hi−1
	some  int                       // that a seat takes at once at least, 0 for one
	given given                     // to products whose rows take vectors

	_        [64]byte
	finished atomic.Int64
	_        [64]byte

	assist   func(until func() bool) bool
	stepping atomic.Bool // a step is under way
	mu       sync.Mutex
	wake     sync.Cond
	sleeping atomic.Int32
	closed   atomic.Bool
	helpers  sync.WaitGroup
}

// seat is one goroutine's memory, and its share of a job.
type seat struct {
	crew    *crew
	number  int
	off     [2][simd.TileKeys]int // lists of rows
	panel   simd.Panel            // of a product of many rows
	columns []float32             // part of a product with a matrix that is stored by columns
	vectors []simd.Vector         // rows of x as rows of blocks take them
	made    int                   // of what they were made
	read    place                 // up to where it read rows of blocks last
	fault   error                 // what ended its work: a file of weights that was cut short

	_    [64]byte     // what others take from is on a cache line of its own
	next atomic.Int64 // the seat's next task
	end  int64        // and where its tasks end
	_    [64]byte
}

const (
	jobOpen   = 1 << 31
	jobNumber = 1 << 32

	// A helper gives way to other goroutines each so many looks, and between steps sleeps after so many
	// turns: some 30 microseconds, as long as it takes to wake one.
	looksPerTurn = 256
	turns        = 25
)

// blockOf are the kernels' names of types of blocks.
var blockOf = map[gguf.Type]simd.Block{
	gguf.Q4_0: simd.Q4_0, gguf.Q4_1: simd.Q4_1, gguf.Q5_0: simd.Q5_0, gguf.Q5_1: simd.Q5_1, gguf.Q8_0: simd.Q8_0,
	gguf.Q4_K: simd.Q4_K, gguf.Q5_K: simd.Q5_K, gguf.Q6_K: simd.Q6_K,
}

// newCrew starts threads−1 helpers. Between the jobs of a step they assist, unless that is nil: it returns when
// what it is given holds, and reports whether it could be of use.
func newCrew(threads int, assist func(until func() bool) bool) *crew {
	c := &crew{seats: make([]*seat, threads), assist: assist}
	c.wake.L = &c.mu
	for i := range c.seats {
		c.seats[i] = &seat{crew: c, number: i}
	}
	for e := range simd.Elem(simd.NumElems) {
		c.scores[e], c.accumulate[e], c.streams[e] = simd.Scores(e), simd.Accumulate(e), simd.Rows(e)
	}
	for t, b := range blockOf {
		c.dots[t] = simd.Dot(b)
	}
	for _, s := range c.seats[1:] {
		c.helpers.Add(1)
		go c.serve(s)
	}
	return c
}

// begin says that jobs will follow one another until end, and wakes those who sleep.
func (c *crew) begin() {
	for _, s := range c.seats {
		s.fault = nil
	}
	c.stepping.Store(true)
	c.rouse()
}

func (c *crew) end() { c.stepping.Store(false) }

// rouse wakes those who sleep.
func (c *crew) rouse() {
	if c.sleeping.Load() > 0 {
		c.mu.Lock()
		c.wake.Broadcast()
		c.mu.Unlock()
	}
}

// run does tasks 0 to n−1, each once, and returns when all are done. One caller at a time. Each seat takes
// its share of the tasks in their order, so that memory that they read in turn is read as a few long runs.
func (c *crew) run(n int, do func(s *seat, task int)) {
	c.runRuns(n, 0, func(s *seat, lo, hi int) {
		for task := lo; task < hi; task++ {
			do(s, task)
		}
	})
}

// runRuns is run for tasks that may be done several at once, lo to hi−1: of a share, a seat takes half of what is left,
// and not less than some, or for none one. One that is alone takes all.
func (c *crew) runRuns(n, some int, do func(s *seat, lo, hi int)) {
	if n == 1 || len(c.seats) == 1 {
		do(c.seats[0], 0, n)
		return
	}
	c.do, c.some = do, some
	for i, s := range c.seats {
		s.next.Store(int64(i * n / len(c.seats)))
		s.end = int64((i + 1) * n / len(c.seats))
	}
	c.finished.Store(0)
	c.state.Store(c.state.Load()&^(jobNumber-1) + jobNumber | jobOpen)
	c.rouse()
	c.work(c.seats[0])
	joined := int64(c.state.And(^uint64(jobOpen)) & (jobOpen - 1))
	for i := 1; c.finished.Load() != joined; i++ {
		if i%looksPerTurn == 0 {
			runtime.Gosched()
		}
	}
	c.do = nil
}

// fault is the first error since begin, in the order of the seats. Tasks behind it are not all done.
func (c *crew) fault() error {
	for _, s := range c.seats {
		if s.fault != nil {
			return s.fault
		}
	}
	return nil
}

// work does a seat's share of the tasks, and then what others have not begun of theirs.
func (c *crew) work(s *seat) {
	defer filemap.Recover(&s.fault, debug.SetPanicOnFault(true))
	for i := range c.seats {
		from := c.seats[(s.number+i)%len(c.seats)]
		for lo, hi := c.take(from); lo < hi; lo, hi = c.take(from) {
			c.do(s, lo, hi)
		}
	}
}

// take takes the next tasks of a seat's share, [lo, hi).
func (c *crew) take(from *seat) (lo, hi int) {
	for {
		next := from.next.Load()
		n := from.end - next
		if n <= 0 {
			return 0, 0
		}
		if c.some > 0 {
			n = min(n, max((n+1)/2, int64(c.some)))
		} else {
			n = 1
		}
		if from.next.CompareAndSwap(next, next+n) {
			return int(next), int(next + n)
		}
	}
}

// serve is a helper's life.
func (c *crew) serve(s *seat) {
	defer c.helpers.Done()
	last := uint64(0) // job seen
	wanted := func() bool {
		state := c.state.Load()
		return state&jobOpen != 0 && state/jobNumber != last || !c.stepping.Load() || c.closed.Load()
	}
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
		if c.assist != nil && c.stepping.Load() && c.assist(wanted) {
			continue
		}
		if idle%looksPerTurn == looksPerTurn-1 {
			runtime.Gosched()
		}
		if idle >= looksPerTurn*turns && !c.stepping.Load() {
			c.sleep(last)
			idle = 0
		}
	}
}

// sleep waits for a step, or a job that is not the last one seen. Who begins one looks for sleepers
// afterwards, and who goes to sleep looks for both after it has said so: one of them sees the other.
func (c *crew) sleep(last uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sleeping.Add(1)
	defer c.sleeping.Add(-1)
	for {
		state := c.state.Load()
		if c.closed.Load() || c.stepping.Load() || state&jobOpen != 0 && state/jobNumber != last {
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
