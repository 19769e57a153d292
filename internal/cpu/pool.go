package cpu

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flashdec/flashdec/backend"
)

// pool lends a backend's helpers, goroutines that wait for work, to its jobs. A
// decode's caller always works on its own job, so a job never waits for a helper:
// decodes side by side, in one backend or in several, cannot block each other.
type pool struct {
	mu      sync.Mutex
	wake    sync.Cond // a job wants helpers, or the pool closes
	wanted  []*job    // jobs that want helpers, oldest first
	idle    []*job    // jobs to use again, with their buffers
	started int       // helpers
	closed  bool
	helpers sync.WaitGroup
	left    atomic.Int64 // when the last job ended, in nanoseconds since began
	began   time.Time

	// What is looked at all the while lies on a cache line that offers alone change.
	_       [cacheLine]byte
	waiting atomic.Int32 // len(wanted), to be looked at without the lock
	guests  atomic.Int32 // goroutines of callers that look out for jobs, beside the helpers
	_       [cacheLine]byte
}

func newPool() *pool {
	p := &pool{began: time.Now()}
	p.left.Store(-int64(lingering))
	p.wake.L = &p.mu
	return p
}

// take returns a job that nobody uses.
func (p *pool) take() (*job, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, backend.ErrClosed
	}
	n := len(p.idle)
	if n == 0 {
		return new(job), nil
	}
	j := p.idle[n-1]
	p.idle = p.idle[:n-1]
	return j, nil
}

// put gives a job back, keeping its buffers but nothing of its launch.
func (p *pool) put(j *job) {
	j.leave()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, j)
}

// run works on the job, with at most that many helpers beside the caller, and
// returns when nobody works on it any more.
func (p *pool) run(j *job, helpers int) {
	j.seat(helpers)
	if helpers > 0 {
		p.offer(j, helpers)
	}
	defer p.part(j, helpers)
	j.work(j.seats[0])
}

// part ends the offer and waits for those who joined the job, also where the
// caller comes to no good end.
func (p *pool) part(j *job, helpers int) {
	if helpers > 0 {
		p.withdraw(j)
		linger(func() bool { return j.working.Load() == 0 })
		j.helping.Wait()
	}
	p.left.Store(int64(p.now()))
}

// now is the time on the pool's clock.
func (p *pool) now() time.Duration { return time.Since(p.began) }

// hot reports that a job ended so short a time before now that its helpers still
// look out for the next.
func (p *pool) hot(now time.Duration) bool {
	return now-time.Duration(p.left.Load()) < lingering
}

// offer asks for helpers. Guests come by themselves; of the pool's own it starts as many as were ever asked
// for at once.
func (p *pool) offer(j *job, helpers int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	j.wants, j.joined = helpers, 0
	p.wanted = append(p.wanted, j)
	p.waiting.Store(int32(len(p.wanted)))
	helpers -= int(p.guests.Load())
	for ; p.started < helpers; p.started++ {
		p.helpers.Add(1)
		go p.serve()
	}
	for range helpers {
		p.wake.Signal()
	}
}

// withdraw ends the offer: who has not joined the job by now never will.
func (p *pool) withdraw(j *job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if j.wants > 0 {
		j.wants = 0
		p.remove(j)
	}
}

// remove takes the job from the wanted ones, the others keeping their order.
func (p *pool) remove(j *job) {
	for i := range p.wanted {
		if p.wanted[i] == j {
			copy(p.wanted[i:], p.wanted[i+1:])
			p.wanted[len(p.wanted)-1] = nil
			p.wanted = p.wanted[:len(p.wanted)-1]
			p.waiting.Store(int32(len(p.wanted)))
			return
		}
	}
}

// serve is a helper's life.
func (p *pool) serve() {
	defer p.helpers.Done()
	for {
		j, seat := p.join()
		if j == nil {
			return
		}
		j.help(seat)
		linger(func() bool { return p.waiting.Load() != 0 })
	}
}

// host makes the calling goroutine a helper, a guest, until something holds. A closed pool has no guests.
func (p *pool) host(until func() bool) bool {
	p.mu.Lock()
	closed := p.closed
	p.mu.Unlock()
	if closed {
		return false
	}
	p.guests.Add(1)
	defer p.guests.Add(-1)
	for i := 1; !until(); i++ {
		if p.waiting.Load() != 0 {
			if j, seat := p.joinIfWanted(); j != nil {
				j.help(seat)
			}
		}
		if i%looksPerTurn == 0 {
			runtime.Gosched()
		}
	}
	return true
}

// looksPerTurn is how often a guest looks before it gives way to other goroutines.
const looksPerTurn = 256

// help works at a seat that was taken, and leaves it.
func (j *job) help(seat *worker) {
	j.work(seat)
	j.working.Add(-1)
	j.helping.Done()
}

// lingering is how long who has nothing to do looks out for it before sleeping:
// some two times what waking costs, so that the layers of a model, or steps that
// follow one another, find helpers awake.
const lingering = 100 * time.Microsecond

// linger returns when something holds, or after a while. Meanwhile it leaves the
// processor to any goroutine that has work.
func linger(holds func() bool) {
	for start := time.Now(); time.Since(start) < lingering; {
		for range 16 {
			if holds() {
				return
			}
			runtime.Gosched()
		}
	}
}

// join waits for a job that wants help and takes a seat at it; nil when the pool
// closes.
func (p *pool) join() (*job, *worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.wanted) == 0 {
		if p.closed {
			return nil, nil
		}
		p.wake.Wait()
	}
	return p.seat()
}

// joinIfWanted is join that does not wait.
func (p *pool) joinIfWanted() (*job, *worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.wanted) == 0 {
		return nil, nil
	}
	return p.seat()
}

// seat takes a seat at the oldest job that wants help. The lock is held.
func (p *pool) seat() (*job, *worker) {
	j := p.wanted[0]
	j.working.Add(1)
	j.helping.Add(1) // while the job is wanted, so before its caller waits
	j.joined++
	if j.wants--; j.wants == 0 {
		p.remove(j)
	}
	return j, j.seats[j.joined]
}

// close stops the helpers and waits for them.
func (p *pool) close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return backend.ErrClosed
	}
	p.closed = true
	p.idle = nil
	p.mu.Unlock()
	p.wake.Broadcast()
	p.helpers.Wait()
	return nil
}
