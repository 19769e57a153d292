package bench

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"
)

const (
	slowRounds = 3 // how many rounds the slow ways are measured in
	fewRounds  = 5 // how many a case gets, if asked for, however long it takes
	patience   = 2 * time.Second
)

// Measure runs all ways of all cases in turns, rounds times after one that does not
// count, so that whatever else the machine does meets all of them: a round takes
// one way of each case, then the next of each, in the order of [rotated]. A case's list begins with
// its bare read, which goes before each of its other ways. A machine that changes
// its pace between rounds so changes a way, its ceiling and what it is compared
// with. Slow ways take part in the first few rounds, and need no other to warm up;
// cases that take long get fewer rounds. An error leaves the rounds before it.
func Measure(ctx context.Context, cases [][]*Impl, rounds int) error {
	pair(cases)
	start := time.Now()
	for round := range rounds + 1 {
		for t := range turns(cases, round) {
			if t.way.Slow && (round == 0 || round > slowRounds) {
				continue
			}
			if err := t.way.measure(ctx, t.read, round > 0); err != nil {
				return fmt.Errorf("%s, %s: %w", t.way.Case.Name, t.way.Name, err)
			}
		}
		if round >= fewRounds && time.Since(start) > time.Duration(len(cases))*patience {
			break
		}
	}
	return nil
}

// turn is a way's, after the bare read of its case.
type turn struct{ way, read *Impl }

// turns are those of a round.
func turns(cases [][]*Impl, round int) iter.Seq[turn] {
	var places [][]turn // the ways in the same place of all lists
	for _, list := range cases {
		for i, way := range list[1:] {
			if i == len(places) {
				places = append(places, nil)
			}
			places[i] = append(places[i], turn{way, list[0]})
		}
	}
	return func(yield func(turn) bool) {
		for place := range rotated(places, round) {
			for _, t := range place {
				if !yield(t) {
					return
				}
			}
		}
	}
}

// rotated is a round's order: each begins with another way, since whoever comes after another program's step
// meets threads of it that still look for work, and whoever is first meets what ended the round before.
func rotated[T any](ways []T, round int) iter.Seq[T] {
	return func(yield func(T) bool) {
		for i := range ways {
			if !yield(ways[(round+i)%len(ways)]) {
				return
			}
		}
	}
}

// pair finds the way that each is compared with: of the same name, on the case that
// its own says.
func pair(cases [][]*Impl) {
	ways := make(map[[2]string]*Impl)
	for _, list := range cases {
		for _, im := range list[1:] {
			ways[[2]string{im.Case.Name, im.Name}] = im
		}
	}
	for _, im := range ways {
		im.base = ways[[2]string{im.Case.Against, im.Name}]
	}
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

// Rounds is how many were measured.
func (im *Impl) Rounds() int { return len(im.seconds) }

// times is the keys a second as a multiple of those of the way that it is compared
// with: the median over the rounds that both took part in, 0 without any.
func (im *Impl) times() float64 {
	if im.base == nil {
		return 0
	}
	keys := float64(im.Case.Keys()) / float64(im.base.Case.Keys())
	var all []float64
	for i := range min(len(im.seconds), len(im.base.seconds)) {
		all = append(all, keys*im.base.seconds[i]/im.seconds[i])
	}
	if len(all) == 0 {
		return 0
	}
	return Median(all)
}

// Median of a list that is not empty.
func Median(x []float64) float64 {
	sorted := slices.Sorted(slices.Values(x))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
