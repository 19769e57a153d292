package cuda

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/flashdec/flashdec/internal/nv"
)

// stamp is Stamp of kernels/trace.cuh; a block has one a mark, zero where it did not pass.
type stamp struct {
	time   uint64 // ns
	cycles uint32
	_      uint32 // the multiprocessor
}

var marks = [...]string{"started", "first tile", "walked", "stored", "band arrived", "gathered", "stored", "arrived", "gathered", "done"}

// trace prints, for one launch among many, when blocks reach their marks after the
// first one started, and the cycles since the mark before.
func (m *meter) trace(s *Step, launch func(int) error) error {
	const launches = 12
	blocks := int(s.grid.X * s.grid.Y * s.grid.Z)
	stamps := make([]stamp, launches*blocks*len(marks))
	bytes := len(stamps) * int(unsafe.Sizeof(stamps[0]))
	at, err := m.b.ctx.Alloc(bytes)
	if err != nil {
		return err
	}
	defer func() { s.params.trace = 0 }()
	g, err := m.b.stream.Capture(func() error {
		if err := m.b.stream.Fill(at, 0, bytes); err != nil {
			return err
		}
		for i := range launches {
			s.params.trace = at + nv.Pointer(i*bytes/launches)
			if err := launch(i); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for range 3 {
		err = errors.Join(err, g.Launch(m.b.stream))
	}
	if err := errors.Join(err, nv.Download(m.b.stream, stamps, at), g.Destroy(), m.b.ctx.Free(at)); err != nil {
		return err
	}
	for i := 4; i < launches; i += 4 {
		printTrace(stamps[i*blocks*len(marks):][:blocks*len(marks)])
	}
	return nil
}

func printTrace(stamps []stamp) {
	n := len(marks)
	start := stamps[0].time
	for i := 0; i < len(stamps); i += n {
		start = min(start, stamps[i].time)
	}
	for k, name := range marks {
		var when, cycles []int
		for i := 0; i < len(stamps); i += n {
			if x := stamps[i+k]; x.time != 0 {
				when = append(when, int(x.time-start))
				for j := k - 1; j >= 0; j-- {
					if before := stamps[i+j]; before.time != 0 {
						cycles = append(cycles, int(x.cycles-before.cycles))
						break
					}
				}
			}
		}
		if len(when) == 0 {
			continue
		}
		slices.Sort(when)
		slices.Sort(cycles)
		line := fmt.Sprintf("    %-10s %4d blocks  ns %6d %6d %6d", name, len(when), when[0], when[len(when)/2], when[len(when)-1])
		if len(cycles) > 0 {
			line += fmt.Sprintf("   cycles %6d %6d %6d", cycles[0], cycles[len(cycles)/2], cycles[len(cycles)-1])
		}
		fmt.Println(line)
	}
}
