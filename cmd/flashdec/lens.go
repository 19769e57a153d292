package main

import (
	"fmt"
	"strconv"
	"strings"
)

// maxSequences bounds what a short list can ask for: 1x1000000000 is a line of
// text and 16 GB of plan.
const maxSequences = 1 << 20

// parseLens reads a list of sequence lengths: "131072,16x63" is one of 131072
// keys and 63 of 16.
func parseLens(list string) ([]int, error) {
	var lens []int
	for term := range strings.SplitSeq(list, ",") {
		length, times, err := parseLensTerm(strings.TrimSpace(term))
		if err != nil {
			return nil, err
		}
		if times > maxSequences-len(lens) {
			return nil, fmt.Errorf("--lens: %q brings the list to more than %d sequences", term, maxSequences)
		}
		for range times {
			lens = append(lens, length)
		}
	}
	return lens, nil
}

func parseLensTerm(term string) (length, times int, err error) {
	left, right, repeated := strings.Cut(term, "x")
	if length, err = parseCount(left, 0); err == nil {
		times = 1
		if repeated {
			times, err = parseCount(right, 1)
		}
	}
	if err != nil {
		return 0, 0, fmt.Errorf("--lens: %q: %w; want a list of lengths such as 131072,16x63 (63 of length 16)", term, err)
	}
	return length, times, nil
}

// parseCount reads a plain decimal number of at least low.
func parseCount(s string, low int) (int, error) {
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil {
		// The sentence of strconv's own error repeats the input and names the function.
		if e, ok := err.(*strconv.NumError); ok {
			err = e.Err
		}
		return 0, fmt.Errorf("%q is no count (%w)", s, err)
	}
	if n < uint64(low) {
		return 0, fmt.Errorf("%d is below %d", n, low)
	}
	return int(n), nil
}
