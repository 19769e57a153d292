package cuda

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"unsafe"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/internal/nv"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/plan"
)

// Buffers is the device memory of one launch.
type Buffers struct {
	K, V Plane
	Q    nv.Pointer // [queries, NumHeads, KeyDim] float32
	Out  nv.Pointer // [queries, NumHeads, ValueDim] float32
	LSE  nv.Pointer // [queries, NumHeads] natural; 0 if not wanted
	// StateM and StateL, when set, receive states (and Out their O) instead.
	StateM, StateL nv.Pointer // [queries, NumHeads]
	// Sinks, when set, are the layer's own, in place of the step's.
	Sinks nv.Pointer // [NumHeads] float32
}

// StepConfig is what a step is made from. Planes are needed for their types and
// strides only.
type StepConfig struct {
	Shape    attn.Shape
	Options  *attn.Options
	Plan     *plan.Plan
	Seqs     []kv.Table
	PageSize int
	K, V     Plane
	// Capacity, where set, is how many keys each sequence may come to have: lengths
	// and page tables are then read when the step runs (see [Step.Follow]), and the
	// plan's splits are cut anew for them.
	Capacity []int

	traced bool // by the traced build of the kernels
}

// Step is a decode step whose plan, page tables and scratch lie on the device.
// It can be launched any number of times, one launch after the other.
type Step struct {
	b      *Backend
	kernel *kernel
	params params
	grid   nv.Dim3
	memory []nv.Pointer
	k, v   Plane // as the step was made for

	pageSize int
	seqs     []kv.Table // as planned, needed pages only; where lengths are fixed

	// Of a step that follows its sequences' lengths.
	capacity []int
	lost     nv.Pointer // int32

	traced []tracedBlock // of a traced step
}

// NewStep puts a step on the device.
func (b *Backend) NewStep(c StepConfig) (*Step, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, errClosed
	}
	var s *Step
	err := b.ctx.Do(func() (err error) {
		s, err = b.newStep(c)
		return err
	})
	if err != nil {
		return nil, err
	}
	b.owners[s] = struct{}{}
	return s, nil
}

func (b *Backend) newStep(c StepConfig) (*Step, error) {
	rows := 0
	for _, u := range c.Plan.Units {
		rows = max(rows, u.NumQueries*c.Shape.GroupSize())
	}
	v := choose(c.K, c.V, c.Shape.KeyDim, c.Shape.ValueDim, rows)
	v.traced = c.traced
	v.alone = v.keyDim != 0 && b.oneWave(c.Plan, tiles(rows, v.rows))
	k, err := b.kernel(v, c.Shape.ValueDim)
	if err != nil {
		return nil, err
	}
	s := &Step{b: b, kernel: k, k: c.K, v: c.V, capacity: c.Capacity, pageSize: c.PageSize}
	if err := s.prepare(c, rows); err != nil {
		return nil, errors.Join(err, s.free())
	}
	return s, nil
}

// aloneKeys is how many keys an item has at least for a block of twice the warps to
// be worth it; docs/calibration-gpu.md.
const aloneKeys = 512

// oneWave reports whether a multiprocessor has one long item at most, for a block
// that has it to itself.
func (b *Backend) oneWave(p *plan.Plan, blocks int) bool {
	if len(p.Items)*blocks > b.multiprocessors {
		return false
	}
	keys := 0
	for _, it := range p.Items {
		keys += it.End - it.Begin
	}
	return keys >= aloneKeys*len(p.Items)
}

// prepare fills the parameters and the device memory that they point to. rows is
// the most query rows of an item.
func (s *Step) prepare(c StepConfig, rows int) error {
	if err := checkLengths(c.Seqs); err != nil {
		return err
	}
	scale := c.Options.ScaleFor(c.Shape.KeyDim)
	s.params = params{
		numHeads: int32(c.Shape.NumHeads),
		group:    int32(c.Shape.GroupSize()),
		keyDim:   int32(c.Shape.KeyDim),
		valueDim: int32(c.Shape.ValueDim),
		pageSize: int32(min(c.PageSize, math.MaxInt32)),
		causal:   int32Of(c.Options.Causal),
		window:   int32(min(c.Options.Window, math.MaxInt32)),
		scale:    float32(scale),
		softcap:  float32(c.Options.Softcap),
		stages:   int32(s.kernel.stages),
	}
	s.params.groupMagic, s.params.pageMagic = magics(c.Shape.GroupSize(), c.PageSize)
	s.params.mergeFloats = int32((s.kernel.shared-s.kernel.queryBytes())/4) &^ 3
	s.params.most = int32(s.kernel.statesThatFit(int(s.params.mergeFloats), min(rows, s.kernel.rows), c.Shape.ValueDim))
	pages, tables := pageTables(c)
	s.remember(c)
	l := layOut(c, tables, s.kernel.rows)
	if c.Capacity == nil {
		l.regularise(c)
	} else if err := s.followable(c, &l); err != nil {
		return err
	}
	if c.traced {
		if err := s.makeTraceable(&l, c.Plan); err != nil {
			return err
		}
	}
	s.bands(c.Plan)
	s.grid = nv.Dim3{X: uint32(len(l.works)), Y: 1, Z: 1}
	s.params.regular = l.regular
	if r := l.regular; r.splits != 0 {
		s.grid = nv.Dim3{X: uint32(r.splits), Y: uint32(r.heads), Z: uint32(len(l.works) / int(r.splits*r.heads))}
		l.works = nil
	}
	return errors.Join(
		put(s, &s.params.works, l.works),
		put(s, &s.params.pages, pages),
		put(s, &s.params.slopes, c.Options.Slopes),
		put(s, &s.params.sinks, c.Options.Sinks),
		s.putMask(c.Options.Mask),
		s.scratch(c, l.counters),
	)
}

// magics turn divisions by the group and the page size into products: see
// group_magic and page_magic in kernels/params.cuh.
func magics(group, pageSize int) (g, p uint64) {
	g = (1<<40 + uint64(group) - 1) / uint64(group)
	if pageSize > 1 {
		p = math.MaxUint64/uint64(pageSize) + 1
	}
	return g, p
}

// checkLengths refuses what the kernels' 32-bit key positions cannot hold.
func checkLengths(seqs []kv.Table) error {
	for i, t := range seqs {
		if t.Len > math.MaxInt32/2 {
			return fmt.Errorf("cuda: %w: sequence %d has %d keys, want at most %d on a GPU", attn.ErrShape, i, t.Len, math.MaxInt32/2)
		}
	}
	return nil
}

func (s *Step) putMask(m *attn.Mask) error {
	if m == nil {
		return nil
	}
	s.params.maskKeys = int64(m.Keys)
	if len(m.Visible) == 0 {
		return put(s, &s.params.mask, []uint8{0}) // of no columns, but a mask
	}
	return put(s, &s.params.mask, m.Visible)
}

// scratch takes the partial states and the counters, which are zero between
// launches.
func (s *Step) scratch(c StepConfig, counters int) error {
	p, rows := &s.params, c.Plan.Rows
	if rows == 0 {
		return nil
	}
	counters *= int(1 + p.maxBands)
	if err := errors.Join(
		s.alloc(&p.partialM, rows*4),
		s.alloc(&p.partialL, rows*4),
		s.alloc(&p.partialO, rows*c.Shape.ValueDim*4),
		s.alloc(&p.counters, counters*4),
	); err != nil {
		return err
	}
	return s.b.stream.Fill32(p.counters, 0, counters)
}

// oneStep is the most splits that merge in one step; docs/calibration-gpu.md.
const oneStep = 20

// bands chooses how units of many splits merge: in bands of about the square root
// of the most splits, so that both steps have as many states.
func (s *Step) bands(p *plan.Plan) {
	most, band := p.MaxSplits(), oneStep
	if most > oneStep {
		band = max(int(math.Sqrt(float64(most))), oneStep/4)
		s.params.maxBands = int32(tiles(most, band))
	}
	s.params.band = int32(band)
	s.params.bandMagic = math.MaxUint32/uint32(band) + 1
}

func int32Of(b bool) int32 {
	if b {
		return 1
	}
	return 0
}

// alloc takes device memory that the step frees.
func (s *Step) alloc(at *nv.Pointer, bytes int) error {
	if bytes == 0 {
		return nil
	}
	p, err := s.b.ctx.Alloc(bytes)
	if err != nil {
		return fmt.Errorf("cuda: %w", err)
	}
	s.memory = append(s.memory, p)
	*at = p
	return nil
}

// put copies a slice to the device.
func put[T any](s *Step, at *nv.Pointer, data []T) error {
	if len(data) == 0 {
		return nil
	}
	if err := s.alloc(at, len(data)*int(unsafe.Sizeof(data[0]))); err != nil {
		return err
	}
	return nv.Upload(s.b.stream, *at, data)
}

// Launch puts the step into a stream. It must run on a thread whose context is
// the backend's: inside [Backend.Do].
func (s *Step) Launch(stream *nv.Stream, bufs Buffers) error {
	if err := s.fits(bufs); err != nil {
		return err
	}
	if s.grid.X == 0 {
		return nil
	}
	p := s.params
	p.k, p.v = bufs.K.params(), bufs.V.params()
	p.kScales, p.vScales = bufs.K.Scales.params(), bufs.V.Scales.params()
	p.kType, p.vType = int32(bufs.K.Type), int32(bufs.V.Type)
	p.keyChunks, p.valueChunks = bufs.K.chunks(p.keyDim), bufs.V.chunks(p.valueDim)
	p.lost = s.lost
	p.q, p.out, p.lse, p.stateM, p.stateL = bufs.Q, bufs.Out, bufs.LSE, bufs.StateM, bufs.StateL
	if bufs.Sinks != 0 {
		p.sinks = bufs.Sinks
	}
	geometry := nv.Launch{
		Grid:        s.grid,
		Block:       nv.Dim3{X: uint32(s.kernel.warps * 32), Y: 1, Z: 1},
		SharedBytes: s.kernel.shared,
	}
	return s.kernel.fn.Launch(stream, geometry, unsafe.Pointer(&p))
}

// fits reports planes that the step's kernel would read wrongly. It wraps
// [ErrStale].
func (s *Step) fits(bufs Buffers) error {
	for _, x := range [...]struct {
		name      string
		got, made Plane
	}{{"keys", bufs.K, s.k}, {"values", bufs.V, s.v}} {
		got, made := x.got, x.made
		aligned := s.kernel.keyDim == 0 || got.Data%chunkBytes == 0
		got.Data, made.Data, got.Scales.Values, made.Scales.Values = 0, 0, 0, 0
		if got != made || !aligned {
			return fmt.Errorf("cuda: %w: the %s have another type, other strides or scales, or another alignment than it was made for", ErrStale, x.name)
		}
	}
	return nil
}

// Close frees the step's device memory once its launches are done.
func (s *Step) Close() error {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	if s.b.closed {
		return nil // by the backend's Close
	}
	delete(s.b.owners, s)
	return s.b.ctx.Do(s.free)
}

func (s *Step) free() error {
	var err error
	for _, p := range s.memory {
		err = errors.Join(err, s.b.ctx.Free(p))
	}
	s.memory = nil
	runtime.KeepAlive(s)
	return err
}
