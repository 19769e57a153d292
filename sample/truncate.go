package sample

// candidate is an id that may be chosen.
type candidate struct {
	id     int32
	logit  float64 // after the repetition penalty
	weight float64 // exp((logit − largest logit)/T): the probability up to a factor
}

// before orders candidates by logit, the largest first, then by id.
func (a candidate) before(b candidate) bool {
	return a.logit > b.logit || a.logit == b.logit && a.id < b.id
}

// truncate returns the topK first candidates and of those the fewest first
// ones whose weights reach the share topP of their sum; at least one. It
// reorders all, and takes O(n + kept·log n): a heap is built over all and only
// what is kept is taken from it.
func truncate(all []candidate, topK int, topP float64) []candidate {
	n := len(all)
	heapify(all)
	if topK == n { // top-p alone: no need to take out what it will not keep
		return all[n-takeShare(all, topP):]
	}
	for taken := range topK {
		popTo(all[:n-taken])
	}
	kept := all[n-topK:] // last is first: a heap yields its largest to its end
	if topP == 1 {
		return kept
	}
	var sum, reached float64
	for _, x := range kept {
		sum += x.weight
	}
	for i := len(kept) - 1; i >= 0; i-- {
		if reached += kept[i].weight; reached >= topP*sum {
			return kept[i:]
		}
	}
	return kept
}

// takeShare pops candidates off the heap to the end of all until their weights
// reach the share topP of the whole, and returns how many.
func takeShare(all []candidate, topP float64) int {
	var sum, reached float64
	for _, x := range all {
		sum += x.weight
	}
	for taken := range all {
		popTo(all[:len(all)-taken])
		if reached += all[len(all)-1-taken].weight; reached >= topP*sum {
			return taken + 1
		}
	}
	return len(all)
}

func heapify(h []candidate) {
	for i := len(h)/2 - 1; i >= 0; i-- {
		sift(h, i)
	}
}

// popTo moves the first of the heap to its last place; the rest is a heap.
func popTo(h []candidate) {
	last := len(h) - 1
	h[0], h[last] = h[last], h[0]
	sift(h[:last], 0)
}

func sift(h []candidate, i int) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if child+1 < len(h) && h[child+1].before(h[child]) {
			child++
		}
		if h[i].before(h[child]) {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}
