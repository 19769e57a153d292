package bench

import (
	"context"
	"slices"
)

// slowRounds is how many rounds the slow ways are measured in.
const slowRounds = 3

// Measure runs all ways in turn, rounds times after one that does not count, so
// that whatever else the machine does meets all of them. The first of the list,
// which is cheap and which all others are held against, goes before each of them.
// Slow ones take part in the first few rounds, and need no other to warm up.
func Measure(ctx context.Context, list []*Impl, rounds int) error {
	for round := range rounds + 1 {
		for _, im := range list[1:] {
			if im.Slow && (round == 0 || round > slowRounds) {
				continue
			}
			for _, im := range []*Impl{list[0], im} {
				seconds, err := im.round(ctx)
				if err != nil {
					return err
				}
				if round > 0 {
					im.seconds = append(im.seconds, seconds)
				}
			}
		}
	}
	return nil
}

// rate is the bytes a second of the median round.
func (im *Impl) rate() float64 { return float64(im.bytes) / Median(im.seconds) }

// spread is how far rounds lay apart: the median above the least, which noise
// only ever adds to.
func (im *Impl) spread() float64 { return Median(im.seconds)/slices.Min(im.seconds) - 1 }

// Median of a list that is not empty.
func Median(x []float64) float64 {
	sorted := slices.Sorted(slices.Values(x))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
