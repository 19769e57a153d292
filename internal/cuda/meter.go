package cuda

import (
	"errors"
	"slices"
	"unsafe"

	"github.com/flashdec/flashdec/internal/nv"
)

// Meter times work on the GPU. What it launches must run inside [Backend.Do].
type Meter struct {
	b          *Backend
	start, end *nv.Event
	read       *nv.Function
	sink       nv.Pointer
}

// NewMeter makes one; it must be closed before the backend.
func (b *Backend) NewMeter() (m *Meter, err error) {
	m = &Meter{b: b}
	err = b.Do(func() error {
		var errs [4]error
		m.start, errs[0] = b.ctx.NewEvent()
		m.end, errs[1] = b.ctx.NewEvent()
		m.read, errs[2] = b.module.Function("read_floor")
		m.sink, errs[3] = b.ctx.Alloc(4)
		return errors.Join(errs[:]...)
	})
	return m, err
}

// Close gives back what the meter holds.
func (m *Meter) Close() error {
	return m.b.Do(func() error {
		return errors.Join(m.start.Destroy(), m.end.Destroy(), m.b.ctx.Free(m.sink))
	})
}

// Replay is a graph of many launches one after the other, to be timed again and
// again: the host takes no part in between.
type Replay struct {
	meter    *Meter
	graph    *nv.Graph
	launches int
}

// Capture records launch(stream, 0), launch(stream, 1), … without running them.
func (m *Meter) Capture(launches int, launch func(stream *nv.Stream, i int) error) (*Replay, error) {
	g, err := m.b.stream.Capture(func() error {
		for i := range launches {
			if err := launch(m.b.stream, i); err != nil {
				return err
			}
		}
		return nil
	})
	return &Replay{m, g, launches}, err
}

// Seconds replays all launches, and is the time of one of them.
func (r *Replay) Seconds() (float64, error) {
	m := r.meter
	if err := errors.Join(m.start.Record(m.b.stream), r.graph.Launch(m.b.stream), m.end.Record(m.b.stream), m.end.Synchronize()); err != nil {
		return 0, err
	}
	ms, err := m.end.Since(m.start)
	return float64(ms) / 1e3 / float64(r.launches), err
}

// Close gives the graph back. That of none does nothing.
func (r *Replay) Close() error {
	if r == nil {
		return nil
	}
	return r.graph.Destroy()
}

// LeastBytes is how many bytes the inputs that rotate must have together so that none
// comes from the L2 cache: several times the largest there is.
const LeastBytes = 400 << 20

// Launches is how many launches that read so many bytes each a replay holds: some
// milliseconds of work, each of the input sets as often as the others.
func Launches(bytes, sets int) int {
	const replay = 2e-3 * 4e12 // bytes
	n := int(max(4, min(200, replay/float64(max(bytes, 1)))))
	return (n + sets - 1) / sets * sets
}

// Floor is a replay of a bare read of so many bytes, at i·apart after data for set i,
// launched in the way that reads fastest.
func (m *Meter) Floor(data nv.Pointer, bytes, apart, sets int) (best *Replay, err error) {
	least := 0.0
	for _, geometry := range m.floorLaunches() {
		r, err := m.Capture(Launches(bytes, sets), func(stream *nv.Stream, i int) error {
			p := struct {
				data   nv.Pointer
				chunks int64 // of 16 bytes
				sink   nv.Pointer
			}{data + nv.Pointer(i%sets*apart), int64(bytes / 16), m.sink}
			return m.read.Launch(stream, geometry, unsafe.Pointer(&p))
		})
		if err != nil {
			return nil, err
		}
		times, err := r.Times(3, 0)
		if err != nil {
			return nil, err
		}
		slower := r
		if seconds := times[len(times)/2]; best == nil || seconds < least {
			best, slower, least = r, best, seconds
		}
		if err := slower.Close(); err != nil {
			return nil, err
		}
	}
	return best, nil
}

// floorLaunches are the ways to launch it that are tried: some grids, each with and
// without starting before the launch ahead has ended, where the GPU can.
func (m *Meter) floorLaunches() []nv.Launch {
	overlaps := []bool{false}
	if m.b.capability[0] >= 9 {
		overlaps = append(overlaps, true)
	}
	var list []nv.Launch
	for _, overlap := range overlaps {
		for _, perSM := range []int{1, 2, 4} {
			for _, threads := range []uint32{256, 512} {
				list = append(list, nv.Launch{
					Grid:    nv.Dim3{X: uint32(perSM * m.b.multiprocessors), Y: 1, Z: 1},
					Block:   nv.Dim3{X: threads, Y: 1, Z: 1},
					Overlap: overlap,
				})
			}
		}
	}
	return list
}

// Times are at least so many replays' seconds, and as many more as fit into that many
// seconds of work, in order of size, after one to warm up.
func (r *Replay) Times(least int, work float64) ([]float64, error) {
	const most = 60
	var times []float64
	for total := 0.0; len(times) <= least || total < work && len(times) < most; {
		t, err := r.Seconds()
		if err != nil {
			return nil, err
		}
		times = append(times, t)
		total += t * float64(r.launches)
	}
	times = times[1:]
	slices.Sort(times)
	return times, nil
}
