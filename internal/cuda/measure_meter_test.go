package cuda

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"unsafe"

	"github.com/flashdec/flashdec/internal/nv"
)

// beyondL2 is how much memory a case's input sets cover together.
const beyondL2 = 400 << 20

// meter holds the memory that inputs lie in: one block, cut anew for each case.
type meter struct {
	b        *Backend
	pool     nv.Pointer
	poolSize int
	q, out   nv.Pointer
	scales   nv.Pointer // float32 near 1, poolSize/64 of them
	start    *nv.Event
	end      *nv.Event
	read     *nv.Function
}

func newMeter(b *Backend) (*meter, error) {
	m := &meter{b: b, poolSize: min(9<<30, math.MaxInt)}
	var err error
	if m.pool, err = b.ctx.Alloc(m.poolSize); err != nil {
		return nil, err
	}
	if err := m.fillPool(); err != nil {
		return nil, err
	}
	const rows = 1 << 16
	var errs [6]error
	m.q, errs[0] = b.ctx.Alloc(rows * 256 * 4)
	m.out, errs[1] = b.ctx.Alloc(rows * 256 * 4)
	m.start, errs[2] = b.ctx.NewEvent()
	m.end, errs[3] = b.ctx.NewEvent()
	m.read, errs[4] = b.module.Function("read_floor")
	m.scales, errs[5] = b.ctx.Alloc(m.poolSize / 16)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(1, 1))
	q := make([]float32, rows*8)
	for i := range q {
		q[i] = float32(rng.NormFloat64())
	}
	return m, errors.Join(
		nv.Upload(b.stream, m.q, q),
		b.stream.Fill32(m.scales, 0x3b800000, m.poolSize/64), // 1/256
	)
}

// fillPool writes numbers near 1 that are bf16 and f16 alike in sign and size, and
// finite as 8-bit codes.
func (m *meter) fillPool() error {
	rng := rand.New(rand.NewPCG(2, 2))
	seed := make([]uint16, 8<<20)
	for i := range seed {
		seed[i] = uint16(rng.Uint32())&0x8377 | 0x3c00
	}
	bytes := len(seed) * 2
	if err := nv.Upload(m.b.stream, m.pool, seed); err != nil {
		return err
	}
	for done := bytes; done < m.poolSize; done *= 2 {
		if err := m.b.stream.Copy(m.pool+nv.Pointer(done), m.pool, min(done, m.poolSize-done)); err != nil {
			return err
		}
	}
	return nil
}

// sets is how many copies of an input of the given size rotate.
func (m *meter) sets(bytes int) int {
	return max(1, min(m.poolSize/bytes, max(2, (beyondL2+bytes-1)/bytes)))
}

// median replays a graph of launches and returns the median and the least time
// of one, in seconds.
func (m *meter) median(launches int, launch func(i int) error) (float64, float64, error) {
	s := m.b.stream
	g, err := s.Capture(func() error {
		for i := range launches {
			if err := launch(i); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, 0, err
	}
	var times []float64
	for total := 0.0; len(times) < 5 || total < 0.03 && len(times) < 60; {
		if err := errors.Join(m.start.Record(s), g.Launch(s), m.end.Record(s), m.end.Synchronize()); err != nil {
			return 0, 0, err
		}
		ms, err := m.end.Since(m.start)
		if err != nil {
			return 0, 0, err
		}
		total += float64(ms) / 1e3
		times = append(times, float64(ms)/1e3/float64(launches))
	}
	times = times[1:] // the first warms up
	slices.Sort(times)
	return times[len(times)/2], times[0], g.Destroy()
}

// launchesFor is how many launches a graph holds: some ms of work, every set at
// least once.
func launchesFor(bytes, sets int) int {
	n := max(4, min(200, int(2e-3*4e12/float64(bytes))))
	return (n + sets - 1) / sets * sets
}

// floor is the time of a bare read of that many bytes, the best of some grids.
func (m *meter) floor(bytes int) (float64, error) {
	best := 0.0
	sets := m.sets(bytes)
	for _, perSM := range []int{1, 2, 4} {
		for _, threads := range []int{256, 512} {
			seconds, _, err := m.median(launchesFor(bytes, sets), func(i int) error {
				p := struct {
					data   nv.Pointer
					chunks int64
					sink   nv.Pointer
				}{m.pool + nv.Pointer(i%sets*bytes), int64(bytes / 16), m.out}
				return m.read.Launch(m.b.stream, nv.Launch{
					Grid:  nv.Dim3{X: uint32(perSM * m.b.multiprocessors), Y: 1, Z: 1},
					Block: nv.Dim3{X: uint32(threads), Y: 1, Z: 1},
				}, unsafe.Pointer(&p))
			})
			if err != nil {
				return 0, err
			}
			if best == 0 || seconds < best {
				best = seconds
			}
		}
	}
	return best, nil
}
