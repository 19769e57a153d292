package token

// symbol is a stretch of the text being merged, in a list linked by index.
type symbol struct {
	start, end int32  // its bytes in the piece
	id         int32  // its token, none where the vocabulary lacks it
	prev, next int32  // neighbours, none at the ends
	rank       uint32 // of merging it with next, noRank where they do not merge
	into       int32  // the token of that merge
}

const (
	none   = int32(-1)
	noRank = ^uint32(0)
)

// pairer tells how two neighbouring symbols of piece merge: the lower rank
// merges first, noRank never.
type pairer interface {
	pair(piece string, a, b *symbol) (rank uint32, into int32)
}

// scratch is the memory of one encoding: the symbols of a piece and a heap of
// the merges that may come next, each rank<<32 | index of the left symbol.
type scratch struct {
	symbols []symbol
	heap    []uint64
}

// begin clears the list for a new piece.
func (s *scratch) begin() { s.symbols, s.heap = s.symbols[:0], s.heap[:0] }

// append adds the symbol of piece[start:end] at the end of the list.
func (s *scratch) append(start, end int, id int32) {
	n := int32(len(s.symbols))
	if n > 0 {
		s.symbols[n-1].next = n
	}
	s.symbols = append(s.symbols, symbol{start: int32(start), end: int32(end), id: id, prev: n - 1, next: none, rank: noRank})
}

// merge applies the merge of the lowest rank, of equal ranks the leftmost,
// until none is left: what a scan for the best pair after each merge would do
// in O(n²), in O(n log n). What remains is the list that begins at symbol 0.
func (s *scratch) merge(piece string, by pairer) {
	for i := range s.symbols {
		s.rate(piece, int32(i), by)
	}
	for i := len(s.heap)/2 - 1; i >= 0; i-- {
		s.sift(i)
	}
	for len(s.heap) > 0 {
		rank, left := uint32(s.heap[0]>>32), int32(uint32(s.heap[0]))
		s.pop()
		a := &s.symbols[left]
		if a.rank != rank { // rated anew, or merged away, since it was pushed
			continue
		}
		b := &s.symbols[a.next]
		a.end, a.id, a.next = b.end, a.into, b.next
		b.rank = noRank
		if a.next != none {
			s.symbols[a.next].prev = left
		}
		s.push(piece, left, by)
		if a.prev != none {
			s.push(piece, a.prev, by)
		}
	}
}

// rate looks up how symbol i merges with its next and, where it does, appends
// that to the heap, which is then no heap.
func (s *scratch) rate(piece string, i int32, by pairer) {
	a := &s.symbols[i]
	a.rank = noRank
	if a.next == none {
		return
	}
	if a.rank, a.into = by.pair(piece, a, &s.symbols[a.next]); a.rank != noRank {
		s.heap = append(s.heap, uint64(a.rank)<<32|uint64(uint32(i)))
	}
}

// push is rate on a heap that stays one.
func (s *scratch) push(piece string, i int32, by pairer) {
	n := len(s.heap)
	if s.rate(piece, i, by); len(s.heap) == n {
		return
	}
	for h := s.heap; n > 0 && h[n] < h[(n-1)/2]; n = (n - 1) / 2 {
		h[n], h[(n-1)/2] = h[(n-1)/2], h[n]
	}
}

func (s *scratch) pop() {
	last := len(s.heap) - 1
	s.heap[0] = s.heap[last]
	s.heap = s.heap[:last]
	s.sift(0)
}

func (s *scratch) sift(i int) {
	for h := s.heap; ; {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if child+1 < len(h) && h[child+1] < h[child] {
			child++
		}
		if h[i] <= h[child] {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}
