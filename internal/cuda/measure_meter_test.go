package cuda

import (
	"errors"
	"math"
	"math/rand/v2"

	"github.com/flashdec/flashdec/internal/nv"
)

// meter has, beside what times, the memory that inputs lie in: one block, cut anew
// for each case.
type meter struct {
	*Meter
	pool     nv.Pointer
	poolSize int
	q, out   nv.Pointer
	scales   nv.Pointer // float32 near 1, poolSize/64 of them
}

func newMeter(b *Backend) (*meter, error) {
	timer, err := b.NewMeter()
	if err != nil {
		return nil, err
	}
	m := &meter{Meter: timer, poolSize: min(9<<30, math.MaxInt)}
	if m.pool, err = b.ctx.Alloc(m.poolSize); err != nil {
		return nil, err
	}
	if err := m.fillPool(); err != nil {
		return nil, err
	}
	const rows = 1 << 16
	var errs [3]error
	m.q, errs[0] = b.ctx.Alloc(rows * 256 * 4)
	m.out, errs[1] = b.ctx.Alloc(rows * 256 * 4)
	m.scales, errs[2] = b.ctx.Alloc(m.poolSize / 16)
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
	return max(1, min(m.poolSize/bytes, max(2, (LeastBytes+bytes-1)/bytes)))
}

// times are the median and the least time of a replay, which it closes.
func times(r *Replay, err error) (median, least float64, _ error) {
	if err != nil {
		return 0, 0, err
	}
	all, err := r.Times(4, 0.03)
	if err = errors.Join(err, r.Close()); err != nil {
		return 0, 0, err
	}
	return all[len(all)/2], all[0], nil
}
