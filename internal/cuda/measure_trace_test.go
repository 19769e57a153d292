package cuda

import (
	"errors"
	"fmt"
	"slices"

	"github.com/flashdec/flashdec/internal/nv"
)

var markNames = [numMarks]string{
	"started", "first tile", "walked", "stored", "band arrived", "band gathered", "band stored", "arrived", "gathered", "done",
}

// trace prints, for the last of many launches of the step by the traced build, when
// blocks reach their marks after the first one started, and the cycles since the mark
// before.
func (m *meter) trace(sc StepConfig, launch func(s *Step, stream *nv.Stream, i int) error) (err error) {
	const launches = 12
	sc.traced = true
	s, err := m.b.newStep(sc)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.free()) }()
	r, err := m.Capture(launches, func(stream *nv.Stream, i int) error {
		return errors.Join(s.clearTrace(stream), launch(s, stream, i))
	})
	if err != nil {
		return err
	}
	if _, err := r.Times(3, 0); err != nil {
		return err
	}
	stamps := make([]blockStamps, len(s.traced))
	if err := nv.Download(m.b.stream, stamps, s.params.trace); err != nil {
		return err
	}
	printMarks(stamps)
	return r.Close()
}

func printMarks(stamps []blockStamps) {
	start := stamps[0][markStarted].time
	for i := range stamps {
		start = min(start, stamps[i][markStarted].time)
	}
	for mark, name := range markNames {
		var when, cycles []int
		for i := range stamps {
			b := &stamps[i]
			if !b.passed(mark) {
				continue
			}
			when = append(when, int(b[mark].time-start))
			for before := mark - 1; before >= 0; before-- {
				if b.passed(before) {
					cycles = append(cycles, int(b[mark].cycles-b[before].cycles))
					break
				}
			}
		}
		if len(when) == 0 {
			continue
		}
		slices.Sort(when)
		slices.Sort(cycles)
		line := fmt.Sprintf("    %-13s %4d blocks  ns %6d %6d %6d", name, len(when), when[0], when[len(when)/2], when[len(when)-1])
		if len(cycles) > 0 {
			line += fmt.Sprintf("   cycles %6d %6d %6d", cycles[0], cycles[len(cycles)/2], cycles[len(cycles)-1])
		}
		fmt.Println(line)
	}
}
