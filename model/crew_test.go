package model

import (
	"runtime"
	"slices"
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
			c.runRuns(n, round%3, func(_ *seat, lo, hi int) {
				for task := lo; task < hi; task++ {
					done[task].Add(1)
				}
			})
			for i := range done {
				if got := done[i].Load(); got != 2 {
					t.Fatalf("%d threads, round %d: task %d of %d was done %d times, not by each of two jobs", threads, round, i, n, got)
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

// TestCrewTakesRuns: of a share, half of what is left, and not less than asked for; where nothing is asked for, one task
// at a time; and who is alone takes all.
func TestCrewTakesRuns(t *testing.T) {
	c := newCrew(2, nil)
	defer c.close()
	for _, test := range []struct {
		some int
		want []int // lengths of the runs of a share of 10
	}{{0, []int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}}, {1, []int{5, 3, 1, 1}}, {4, []int{5, 4, 1}}, {20, []int{10}}} {
		from := &seat{end: 10}
		c.some = test.some
		var got []int
		next := 0
		for lo, hi := c.take(from); lo < hi; lo, hi = c.take(from) {
			if lo != next {
				t.Fatalf("at least %d: a run begins at %d, the last one ended at %d", test.some, lo, next)
			}
			got, next = append(got, hi-lo), hi
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("at least %d: runs of %v, want %v", test.some, got, test.want)
		}
	}
	alone := newCrew(1, nil)
	defer alone.close()
	alone.runRuns(10, 0, func(_ *seat, lo, hi int) {
		if lo != 0 || hi != 10 {
			t.Errorf("alone, tasks [%d, %d), want all 10", lo, hi)
		}
	})
}
