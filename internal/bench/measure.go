package bench

import (
	"context"
	"slices"
	"time"
)

const (
	slowRounds = 3 // how many rounds the slow ways are measured in
	fewRounds  = 5 // how many a case gets, if asked for, however long it takes
	patience   = 2 * time.Second
)

// Measure runs all ways in turn, rounds times after one that does not count, so
// that whatever else the machine does meets all of them. The first of the list is
// the bare read, which goes before each of the others: a machine that changes its
// pace between rounds changes both. Slow ways take part in the first few rounds,
// and need no other to warm up; a case that takes long gets fewer rounds.
func Measure(ctx context.Context, list []*Impl, rounds int) error {
	start := time.Now()
	for round := range rounds + 1 {
		for _, im := range list[1:] {
			if im.Slow && (round == 0 || round > slowRounds) {
				continue
			}
			if err := im.measure(ctx, list[0], round > 0); err != nil {
				return err
			}
		}
		if round >= fewRounds && time.Since(start) > patience {
			break
		}
	}
	return nil
}

// measure runs one round, after one of the bare read.
func (im *Impl) measure(ctx context.Context, read *Impl, counts bool) error {
	ceiling, err := read.round(ctx)
	if err != nil {
		return err
	}
	seconds, err := im.round(ctx)
	if err != nil {
		return err
	}
	if counts {
		im.ceiling = append(im.ceiling, float64(read.bytes)/ceiling)
		im.seconds = append(im.seconds, seconds)
	}
	return nil
}

// Median of a list that is not empty.
func Median(x []float64) float64 {
	sorted := slices.Sorted(slices.Values(x))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
