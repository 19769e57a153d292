package plan

import "math"

// Work is what an item costs, in products of a query row with a key: its keys,
// each for its own bytes and for the item's rows.
func (p *Plan) Work(it Item) int {
	return (it.End - it.Begin) * (keyCost + it.NumQueries*p.Config.GroupSize)
}

// processor is one of Width under list scheduling.
type processor struct{ load, id int }

func (a processor) before(b processor) bool {
	return a.load < b.load || a.load == b.load && a.id < b.id
}

// hasWidth reports whether there are processors to assign items to.
func (p *Plan) hasWidth() bool { return p.Config.Width >= 1 && p.Config.Width <= MaxWidth }

// Assign says which items each of Width processors computes, as indexes into
// Items, when each takes the next item as soon as it is free and works at the
// same speed: [Width][items of a processor]. It is nil for a Width that [New]
// would refuse.
func (p *Plan) Assign() [][]int {
	if !p.hasWidth() {
		return nil
	}
	lists := make([][]int, p.Config.Width)
	free := make(heap[processor], p.Config.Width)
	for i := range free {
		free[i].id = i
	}
	for i, it := range p.Items {
		first := &free[0]
		lists[first.id] = append(lists[first.id], i)
		first.load += p.Work(it)
		free.sink()
	}
	return lists
}

// Balance is the mean load of a processor by the highest, under [Plan.Assign]:
// 1 when all end together. It is NaN for a Width that [New] would refuse.
func (p *Plan) Balance() float64 {
	if !p.hasWidth() {
		return math.NaN()
	}
	var l levels
	l.reset(p.Config.Width)
	for _, it := range p.Items {
		l.place(p.Work(it), 1)
	}
	if l.top == 0 {
		return 1
	}
	return float64(l.sum) / float64(l.top) / float64(p.Config.Width)
}
