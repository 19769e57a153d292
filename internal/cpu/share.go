package cpu

import "sync/atomic"

// unlike is how many times the least item's work the heaviest one's may be where each worker has a share of its own.
const unlike = 2

// share is tasks that follow one another, for one worker to begin with. Others take from it when theirs are done.
type share struct {
	next atomic.Int64 // task to start next
	end  int64
	_    [cacheLine - 16]byte
}

// share divides the tasks among so many workers, in their order, so that each reads memory in long runs and knows what it
// reads next. Where tasks differ much, the heaviest, which come first, are for whoever is free: all are one share.
func (j *job) share(workers int) {
	p := j.launch.Plan
	if len(p.Items) > 0 && p.Work(p.Items[0]) > unlike*p.Work(p.Items[len(p.Items)-1]) {
		workers = 1
	}
	j.shares = resize(j.shares, workers)
	total, done, i := 0, 0, 0
	for t := range j.tasks {
		total += j.taskWork(&j.tasks[t])
	}
	for s := range j.shares {
		j.shares[s].next.Store(int64(i))
		for ; i < len(j.tasks) && (done < total/workers*(s+1) || s == workers-1); i++ {
			done += j.taskWork(&j.tasks[i])
		}
		j.shares[s].end = int64(i)
	}
}

// taskWork is the work of a task, in the plan's units.
func (j *job) taskWork(t *task) int {
	return j.launch.Plan.Work(j.launch.Plan.Items[t.first]) * t.heads * t.splits
}

// take is the worker's next task: of its own share, then of the others'. Nil where all are taken.
func (j *job) take(lane int) *task {
	for i := range j.shares {
		s := &j.shares[(lane+i)%len(j.shares)]
		if t := s.next.Add(1) - 1; t < s.end {
			return &j.tasks[t]
		}
	}
	return nil
}

// upcoming is the task that the worker would take now, or nil.
func (j *job) upcoming(lane int) *task {
	for i := range j.shares {
		s := &j.shares[(lane+i)%len(j.shares)]
		if t := s.next.Load(); t < s.end {
			return &j.tasks[t]
		}
	}
	return nil
}
