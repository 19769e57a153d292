package bench

import (
	"iter"
	"slices"
)

// balanced is a round's order, a row of Williams' design (Australian Journal of Scientific Research A 2, 1949): within
// as many rounds as there are ways, or twice as many of an odd number, every way stands once (twice) in every place and
// comes once (twice) after each of the others. For a step pays for what came before: another program's threads that
// still look for work, a clock that was lowered, caches of which nothing is left.
func balanced[T any](ways []T, round int) iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, i := range williams(len(ways), round) {
			if !yield(ways[i]) {
				return
			}
		}
	}
}

// williams is a row of the design of n: 0, 1, n-1, 2, n-2, … with the row's number added; of an odd n, each such row
// is followed by its reverse.
func williams(n, row int) []int {
	shift, turned := row, false
	if n%2 == 1 {
		shift, turned = row/2, row%2 == 1
	}
	order := make([]int, n)
	for i := range order {
		step := (i + 1) / 2
		if i%2 == 0 {
			step = n - step
		}
		order[i] = (step + shift) % n
	}
	if turned {
		slices.Reverse(order)
	}
	return order
}
