package cpu

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/plan"
)

// handedOut is a job whose tasks are handed out.
func handedOut(p *plan.Plan, plane kv.Plane, pageSize, workers int) *job {
	heads := p.Config.NumKVHeads
	j := &job{launch: &backend.Launch{
		Plan: p, KV: kv.View{K: plane, V: plane, NumKVHeads: heads, PageSize: pageSize},
		Shape: attn.Shape{NumHeads: heads * p.Config.GroupSize, NumKVHeads: heads, KeyDim: plane.Dim, ValueDim: plane.Dim},
	}}
	j.k, j.v = planeOf(&plane), planeOf(&plane)
	j.handOut(workers)
	return j
}

// TestTasksAreTakenOnce: whatever the plan, and in whatever order workers come, each task is taken once; what is said to
// come is what the worker then takes; and where nobody else comes, one worker does all.
func TestTasksAreTakenOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlan(t)
		size, workers := rapid.SampledFrom([]int{1, 16, 128}).Draw(t, "page size"), rapid.IntRange(1, 9).Draw(t, "workers")
		j := handedOut(p, drawPlane(t, p.Config.NumKVHeads, size), size, workers)
		here := rapid.IntRange(1, workers).Draw(t, "workers that came")
		taken := make([]int, len(j.tasks))
		for range j.tasks {
			lane := rapid.IntRange(0, here-1).Draw(t, "lane")
			next := j.upcoming(lane)
			got := j.take(lane)
			if got == nil || got != next {
				t.Fatalf("worker %d took %+v, and was to take %+v", lane, got, next)
			}
			for i := range j.tasks {
				if &j.tasks[i] == got {
					taken[i]++
				}
			}
		}
		for i, n := range taken {
			if n != 1 {
				t.Fatalf("task %d of %d was taken %d times, want 1", i, len(taken), n)
			}
		}
		for lane := range workers {
			if got, next := j.take(lane), j.upcoming(lane); got != nil || next != nil {
				t.Fatalf("when all were taken, worker %d took %+v, and then was to take %+v", lane, got, next)
			}
		}
	})
}

// TestSharesAreRuns: of items that are alike each worker has tasks that follow one another, as much work as the others up
// to a task, and takes them before any other's; items that are not are taken as they come, the heaviest first.
func TestSharesAreRuns(t *testing.T) {
	const heads, keys, splits, pageSize = 3, 2048, 4, 128
	plane := kv.Plane{Type: kv.F16, Dim: 64, SlotStride: 64, HeadStride: 64 * pageSize, PageStride: 64 * pageSize * heads}
	plans := map[bool][]plan.Seq{true: {{Len: keys, NumQueries: 1}}, false: {{Len: 100, NumQueries: 1}, {Len: keys, NumQueries: 1}}}
	for alike, seqs := range plans {
		p, err := plan.New(plan.Config{Seqs: seqs, NumKVHeads: heads, GroupSize: 3, Width: 2, NumSplits: splits})
		if err != nil {
			t.Fatal(err)
		}
		for workers := 1; workers <= 5; workers++ {
			j := handedOut(p, plane, pageSize, workers)
			shares := workers
			if !alike {
				shares = 1
			}
			if len(j.shares) != shares {
				t.Fatalf("items alike: %t: %d shares for %d workers, want %d", alike, len(j.shares), workers, shares)
			}
			if !alike {
				if got := j.take(workers - 1); got != &j.tasks[0] {
					t.Errorf("the last worker takes %+v first, want the heaviest, %+v", got, j.tasks[0])
				}
				continue
			}
			for lane := range workers {
				first := int(j.shares[lane].next.Load())
				n := int(j.shares[lane].end) - first
				if even := len(j.tasks) / workers; n < even || n > even+1 {
					t.Errorf("worker %d of %d has %d tasks of %d", lane, workers, n, len(j.tasks))
				}
				if got := j.take(lane); got != &j.tasks[first] {
					t.Errorf("worker %d of %d takes %+v first, want %+v", lane, workers, got, j.tasks[first])
				} else if next := j.upcoming(lane); n > 1 && next.first != got.first+got.heads*got.splits {
					t.Errorf("worker %d of %d goes on with %+v behind %+v", lane, workers, next, got)
				}
			}
		}
	}
}
