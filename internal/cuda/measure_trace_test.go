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
func (m *meter) trace(sc StepConfig, launch func(s *Step, i int) error) (err error) {
	const launches = 12
	sc.traced = true
	s, err := m.b.newStep(sc)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.free()) }()
	g, err := m.b.stream.Capture(func() error {
		for i := range launches {
			if err := errors.Join(s.clearTrace(m.b.stream), launch(s, i)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	stamps := make([]blockStamps, len(s.traced))
	for range 3 {
		if err := errors.Join(g.Launch(m.b.stream), nv.Download(m.b.stream, stamps, s.params.trace)); err != nil {
			return err
		}
	}
	printMarks(stamps)
	return g.Destroy()
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
