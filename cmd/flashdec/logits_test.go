package main

import (
	"math"
	"testing"
)

// TestLogitsAreCountedBeforeTheyAreMade: sizes are checked before they are multiplied, so that a long file and a
// large vocabulary give an error where an int has 32 bits, and the same at its edge where it has 64.
func TestLogitsAreCountedBeforeTheyAreMade(t *testing.T) {
	for _, c := range []struct {
		tokens, vocab int
		want          int // 0 for an error
	}{
		{0, 49152, 0},
		{7, 49152, 7 * 49153 * 4},
		{math.MaxInt/8 + 1, 1, 0},
		{1, math.MaxInt / 4, 0},
		{1, math.MaxInt, 0},
		{1, math.MaxInt/4 - 1, math.MaxInt / 4 * 4},
		{math.MaxInt, math.MaxInt / 8, 0},
	} {
		got, err := logitsBytes(c.tokens, c.vocab)
		if got != c.want || (err == nil) != (c.want > 0 || c.tokens == 0) {
			t.Errorf("%d tokens of %d: %d bytes, %v; want %d", c.tokens, c.vocab, got, err, c.want)
		}
	}
}
