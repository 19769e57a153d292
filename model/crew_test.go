package model

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// TestCrewDoesEveryTaskOnce: jobs of all sizes one right after the other, and after pauses that let the
// helpers fall asleep.
func TestCrewDoesEveryTaskOnce(t *testing.T) {
	for _, threads := range []int{1, 2, 5} {
		c := newCrew(threads, nil)
		for round := range 3000 {
			n := round % 17
			done := make([]atomic.Int32, n)
			c.run(n, func(_ *seat, task int) { done[task].Add(1) })
			for i := range done {
				if got := done[i].Load(); got != 1 {
					t.Fatalf("%d threads, round %d: task %d of %d was done %d times", threads, round, i, n, got)
				}
			}
			if round%1000 == 999 {
				time.Sleep(20 * time.Millisecond)
			}
		}
		c.close()
	}
}

// TestCrewSharesTheWork: a task that waits for another needs someone else to do that, whether the helpers
// are awake or asleep.
func TestCrewSharesTheWork(t *testing.T) {
	c := newCrew(2, nil)
	defer c.close()
	for i := 0; i < 20 && !t.Failed(); i++ {
		var arrived atomic.Int32
		c.run(2, func(*seat, int) {
			arrived.Add(1)
			for deadline := time.Now().Add(time.Minute); arrived.Load() < 2; runtime.Gosched() {
				if time.Now().After(deadline) {
					t.Error("nobody came for the other task")
					return
				}
			}
		})
		time.Sleep(5 * time.Millisecond)
	}
}

// TestCrewSeatsAreApart: two goroutines never share a seat's memory at the same time.
func TestCrewSeatsAreApart(t *testing.T) {
	c := newCrew(4, nil)
	defer c.close()
	inUse := map[*seat]*atomic.Int32{}
	for _, s := range c.seats {
		inUse[s] = new(atomic.Int32)
	}
	for range 200 {
		c.run(16, func(s *seat, _ int) {
			if inUse[s].Add(1) != 1 {
				t.Error("a seat is taken twice")
			}
			runtime.Gosched()
			inUse[s].Add(-1)
		})
	}
}

func TestClosedCrewLeavesNoGoroutine(t *testing.T) {
	before := runtime.NumGoroutine()
	c := newCrew(8, nil)
	c.run(8, func(*seat, int) {})
	c.close()
	for deadline := time.Now().Add(time.Minute); runtime.NumGoroutine() > before; runtime.Gosched() { // the last ones are on their way out
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines before, %d after", before, runtime.NumGoroutine())
		}
	}
}

// TestCrewAssistsWithinSteps: between the jobs of a step helpers are lent, come back for each job, and are lent
// to nobody once the step has ended.
func TestCrewAssistsWithinSteps(t *testing.T) {
	var lent atomic.Int32
	assist := func(until func() bool) bool {
		lent.Add(1)
		defer lent.Add(-1)
		for !until() {
			runtime.Gosched()
		}
		return true
	}
	const helpers = 2
	c := newCrew(1+helpers, assist)
	defer c.close()
	waitFor := func(n int32) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); lent.Load() != n; runtime.Gosched() {
			if time.Now().After(deadline) {
				t.Fatalf("%d helpers are lent, want %d", lent.Load(), n)
			}
		}
	}
	for range 20 {
		c.begin()
		waitFor(helpers)
		var arrived atomic.Int32
		c.run(1+helpers, func(*seat, int) { // each waits for the others, so each is another's
			arrived.Add(1)
			for deadline := time.Now().Add(time.Minute); arrived.Load() < 1+helpers; runtime.Gosched() {
				if time.Now().After(deadline) {
					t.Error("a helper did not come back")
					return
				}
			}
		})
		waitFor(helpers)
		c.end()
		waitFor(0)
	}
}
