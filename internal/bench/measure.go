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
// one way of each case, then another of each, ways and cases in [balanced] order. A case's list begins with
// its bare read, which goes before each of its other ways. A machine that changes
// its pace between rounds so changes a way, its ceiling and what it is compared
// with. Slow ways take part in the first few rounds, and need no other to warm up;
// whoever comes after one warms up again, since so few rounds balance nothing.
// Cases that take long get fewer rounds. An error leaves the rounds before it.
func Measure(ctx context.Context, cases [][]*Impl, rounds int) error {
	pair(cases)
	start, afterSlow := time.Now(), false
	for round := range rounds + 1 {
		for t := range turns(cases, round) {
			if err := t.measure(ctx, afterSlow && !t.way.Slow, round > 0); err != nil {
				return fmt.Errorf("%s, %s: %w", t.way.Case.Name, t.way.Name, err)
			}
			afterSlow = t.way.Slow
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
			if !way.Slow || round > 0 && round <= slowRounds {
				places[i] = append(places[i], turn{way, list[0]})
			}
		}
	}
	places = slices.DeleteFunc(places, func(p []turn) bool { return len(p) == 0 })
	return func(yield func(turn) bool) {
		for place := range balanced(places, round) {
			for t := range balanced(place, round) {
				if !yield(t) {
					return
				}
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

// measure runs one round of the way, after one of the bare read; warm: and before both one that does not count.
func (t turn) measure(ctx context.Context, warm, counts bool) error {
	if warm {
		if _, err := t.way.round(ctx); err != nil {
			return err
		}
	}
	ceiling, err := t.read.round(ctx)
	if err != nil {
		return err
	}
	seconds, err := t.way.round(ctx)
	if err != nil {
		return err
	}
	if counts {
		t.way.ceiling = append(t.way.ceiling, float64(t.read.bytes)/ceiling)
		t.way.seconds = append(t.way.seconds, seconds)
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

// shareOf is how much of its floor's pace a way has that does so much work in each of its rounds: the median of
// rounds, each held against the pace just before it. A machine that changes its pace between rounds changes
// both; medians of each alone may come from different hours of it. They are all there is where the pace was
// not taken round by round.
func shareOf(work float64, seconds, pace []float64) float64 {
	if len(pace) != len(seconds) {
		return work / (Median(seconds) * Median(pace))
	}
	all := make([]float64, len(seconds))
	for i := range all {
		all[i] = work / (seconds[i] * pace[i])
	}
	return Median(all)
}

// Median of a list that is not empty.
func Median(x []float64) float64 {
	sorted := slices.Sorted(slices.Values(x))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
