package plan

type ordered[T any] interface{ before(T) bool }

// heap keeps the element that goes before all others in front.
type heap[T ordered[T]] []T

func (h *heap[T]) push(x T) {
	*h = append(*h, x)
	s := *h
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if !s[i].before(s[up]) {
			return
		}
		s[up], s[i] = s[i], s[up]
		i = up
	}
}

// sink restores the order after the front element has changed.
func (h heap[T]) sink() {
	for i := 0; ; {
		first := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h); child++ {
			if h[child].before(h[first]) {
				first = child
			}
		}
		if first == i {
			return
		}
		h[i], h[first] = h[first], h[i]
		i = first
	}
}
