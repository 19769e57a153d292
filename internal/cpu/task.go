package cpu

import (
	"github.com/flashdec/flashdec/internal/simd"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/plan"
)

// task is what a worker takes at once: one query tile's items of some KV heads and
// of some splits that follow one another. Splits go one after the other, each where
// the one before has led the prefetchers. Heads go side by side, a few keys of
// each in turn: pages of few slots hold little of one head, but of all heads
// together a stretch of memory that is worth streaming.
type task struct {
	first         int // index of the first head's first split among the plan's items
	stride        int // from a head's item to the next head's
	heads, splits int
}

func (t *task) item(head, split int) int { return t.first + head*t.stride + split }

const (
	// sideBySide is how many KV heads the plan is asked to leave together: those of
	// most models. Of more, tasks take as many as slabBytes and workers allow.
	sideBySide = 8

	// longRun is how many bytes of a head's keys lie together where heads do not go
	// side by side: jumping from run to run then costs less than a twentieth.
	longRun = 32 << 10

	// slabBytes bounds a tile of all heads that go side by side, keys and values, but not
	// in the order of memory: it and the next, which is fetched meanwhile, stay in half of
	// a core's second cache.
	slabBytes = 256 << 10

	// stateBytes bounds the queries and running sums of heads that go side by side.
	stateBytes = 64 << 10

	// A task is at most one of so many parts of a worker's share, in its heads and
	// in its splits: workers then end together although one may be disturbed.
	headParts  = 2
	splitParts = 32
)

// handOut divides the plan's items among tasks for so many workers. It counts on
// the plan's order: the splits of a unit that are equally long follow one another,
// and then come those of the next KV head.
func (j *job) handOut(workers int) {
	p := j.launch.Plan
	heads := p.Config.NumKVHeads
	total := 0
	for i := 0; i < len(p.Items); {
		n := alike(p.Items[i:])
		total += p.Work(p.Items[i]) * n * heads
		i += n * heads
	}
	j.tasks = j.tasks[:0]
	for i := 0; i < len(p.Items); {
		n := alike(p.Items[i:])
		t := task{first: i, stride: n, heads: j.together(&p.Items[i]), splits: n}
		if workers > 1 {
			share := total / workers / p.Work(p.Items[i]) // in items
			t.heads = min(t.heads, share/headParts)
			t.splits = share / splitParts / max(t.heads, 1)
		}
		t.heads, t.splits = evenPart(heads, t.heads), evenPart(n, t.splits)
		j.addTasks(t, heads, n)
		i += n * heads
	}
	j.share(workers)
}

// alike is how many items from the first on are splits of its unit that follow one
// another.
func alike(items []plan.Item) int {
	n := 1
	for n < len(items) && items[n].Unit == items[0].Unit && items[n].Begin == items[n-1].End {
		n++
	}
	return n
}

// evenPart is the size of the parts when n things are cut into as few parts as have
// at most that many, or one.
func evenPart(n, most int) int {
	parts := (n + max(most, 1) - 1) / max(most, 1)
	return (n + parts - 1) / parts
}

// addTasks adds a task, which is in the corner, and those beside it, for so many
// heads and splits.
func (j *job) addTasks(corner task, heads, splits int) {
	for h := 0; h < heads; h += corner.heads {
		for s := 0; s < splits; s += corner.splits {
			t := corner
			t.first = corner.item(h, s)
			t.heads, t.splits = min(t.heads, heads-h), min(t.splits, splits-s)
			j.tasks = append(j.tasks, t)
		}
	}
}

// together is how many KV heads are worth going side by side through an item's keys.
func (j *job) together(it *plan.Item) int {
	view, shape := &j.launch.KV, &j.launch.Shape
	run := keyRun(&view.K, view.PageSize)
	if run > simd.TileKeys || run >= it.End-it.Begin || run*view.K.RowBytes() >= longRun {
		return 1
	}
	tile := simd.TileKeys * (view.K.RowBytes() + view.V.RowBytes())
	state := it.NumQueries * shape.GroupSize() * (shape.KeyDim + shape.ValueDim) * 4
	n := min(stateBytes/state, j.launch.Plan.Config.NumKVHeads)
	if !j.walksBeside(n) {
		n = min(n, slabBytes/tile)
	}
	return n
}

// keyRun is how many keys of one head lie one behind the other.
func keyRun(p *kv.Plane, pageSize int) int {
	if p.Offset(0, 0, 1) > p.RowBytes() {
		return 1
	}
	return pageSize
}
