package sample

// history counts the ids of a window over those seen.
type history struct {
	counts []int32 // [vocabSize], how often each id stands in the window
	ring   []int32 // [window], empty where the window is everything
	next   int     // where in ring the next id goes
	filled bool    // whether ring[next] holds the oldest id
}

func newHistory(vocabSize, window int) history {
	return history{counts: make([]int32, vocabSize), ring: make([]int32, window)}
}

func (h *history) seen(id int) bool { return h.counts[id] > 0 }

func (h *history) add(id int) {
	if id < 0 || id >= len(h.counts) {
		return
	}
	if len(h.ring) == 0 {
		h.counts[id] = 1
		return
	}
	if h.filled {
		h.counts[h.ring[h.next]]--
	}
	h.counts[id]++
	h.ring[h.next] = int32(id)
	if h.next++; h.next == len(h.ring) {
		h.next, h.filled = 0, true
	}
}
