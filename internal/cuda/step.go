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
	// Settled says that lengths and page tables change by [Step.Follow] alone: no kernel
	// writes them, so a launch reads them before the kernels ahead have ended.
	Settled bool

	traced bool // by the traced build of the kernels
}

// Step is a decode step whose plan, page tables and scratch lie on the device.
// It can be launched any number of times, one launch after the other.
type Step struct {
	b      *Backend
	kernel *kernel
	params params
	grid   nv.Dim3
	ends   []int // of the grid's parts along x, launched one after the other
	// overlap: launches may start before the one ahead in the stream has ended.
	overlap bool
	memory  []nv.Pointer
	k, v    Plane // as the step was made for

	pageSize int
	seqs     []kv.Table // as planned, needed pages only; where lengths are fixed

	// Of a step that follows its sequences' lengths.
	capacity []int
	lost     nv.Pointer // int32

	traced []tracedBlock // of a traced step
}

// NewStep puts a step on the device, and waits until it is there.
func (b *Backend) NewStep(c StepConfig) (*Step, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed.Load() {
		return nil, errClosed
	}
	var s *Step
	err := b.ctx.Do(func() (err error) {
		if s, err = b.newStep(c); err != nil {
			return err
		}
		// It may be launched in another stream, which knows nothing of the uploads, and
		// early: see overlaps.
		if err = b.stream.Synchronize(); err != nil {
			err = errors.Join(err, s.free())
		}
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
	k, err := b.kernelFor(v, c.Plan, c.Shape.ValueDim)
	if err != nil {
		return nil, err
	}
	s := &Step{b: b, kernel: k, k: c.K, v: c.V, capacity: c.Capacity, pageSize: c.PageSize}
	if err := s.prepare(c, rows); err != nil {
		return nil, errors.Join(err, s.free())
	}
	return s, nil
}

// invariant reports whether a sequence's bits must not depend on its batch mates. How
// many warps share a split's keys is part of them.
func invariant(p *plan.Plan) bool { return p.Config.Invariant || p.Config.NumSplits > 0 }

// An item has at least aloneKeys keys for a block of twice the warps to be worth it, and
// less than amongFourKeys for one of half as many; docs/calibration-gpu.md.
const (
	aloneKeys     = 256
	amongFourKeys = 512
)

// kernelFor loads the variant with as many warps a block as suit the plan: twice as
// many where a multiprocessor has one long item at most, half as many where short items
// then run all at once.
func (b *Backend) kernelFor(v variant, p *plan.Plan, valueDim int) (*kernel, error) {
	if v.keyDim != 0 && !invariant(p) {
		blocks, keys := countBlocks(p, v.rows), 0
		for _, it := range p.Items {
			keys += it.End - it.Begin
		}
		switch each := tiles(blocks, b.multiprocessors); {
		case each <= 1 && keys >= aloneKeys*len(p.Items):
			v.share = alone
		case (each == 3 || each == 4) && keys < amongFourKeys*len(p.Items):
			v.share = amongFour
			if k, err := b.kernel(v, valueDim); err != nil || k.width >= blocks {
				return k, err
			}
			v.share = amongTwo
		}
	}
	return b.kernel(v, valueDim)
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
		settled:  int32Of(c.Settled),
	}
	byChunks := c.K.inChunks(c.Shape.KeyDim) && c.V.inChunks(c.Shape.ValueDim)
	s.params.byWords = int32Of(!byChunks) // the general kernel does not ask
	s.params.groupMagic, s.params.pageMagic = magics(c.Shape.GroupSize(), c.PageSize)
	pages, tables := pageTables(c)
	s.remember(c)
	blocks := countBlocks(c.Plan, s.kernel.rows)
	stateRows, stateDim := s.kernel.stateShape(c.Shape.ValueDim)
	l := layOut(c, tables, s.kernel.rows, mostPartials(s.b.stepBytes, blocks, stateRows*(stateDim+2)))
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
	s.grid, s.ends = nv.Dim3{X: uint32(len(l.works)), Y: 1, Z: 1}, l.ends
	s.params.regular = l.regular
	s.overlaps(c, blocks)
	if r := l.regular; r.splits != 0 {
		s.grid = nv.Dim3{X: uint32(r.splits), Y: uint32(r.heads), Z: uint32(len(l.works) / int(r.splits*r.heads))}
		s.ends = []int{int(r.splits)}
		l.works = nil
	}
	return errors.Join(
		put(s, &s.params.works, l.works),
		put(s, &s.params.pages, pages),
		put(s, &s.params.slopes, c.Options.Slopes),
		put(s, &s.params.sinks, c.Options.Sinks),
		s.putMask(c.Options.Mask),
		s.scratch(&l, stateRows, stateDim),
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

// absent is what partial states hold until they are written: kAbsent of
// kernels/finish.cuh.
const absent = 0xffffffff

// scratch takes the partial states, absent at first, and the counters, which are zero then.
func (s *Step) scratch(l *layout, stateRows, stateDim int) error {
	p, rows, counters := &s.params, l.halves*l.merges.partials*stateRows, l.merges.counters
	if rows == 0 {
		return nil
	}
	if l.halves == 2 {
		p.places = int64(l.merges.partials)
	}
	if err := errors.Join(
		s.alloc(&p.partialML, rows*2*4),
		s.alloc(&p.partialO, rows*stateDim*4),
		s.alloc(&p.counters, counters*4),
	); err != nil {
		return err
	}
	return errors.Join(
		s.b.stream.Fill32(p.partialML, absent, rows*2),
		s.b.stream.Fill32(p.partialO, absent, rows*stateDim),
		s.b.stream.Fill32(p.counters, 0, counters),
	)
}

// overlapBytes is how many bytes of keys and values a step reads at most for its
// launches to start early: some 1.5 µs are gained, and beyond it more than that lost;
// docs/calibration-gpu.md.
const overlapBytes = 3 << 29

// overlaps lets launches start before the one ahead in their stream has ended. What their
// blocks read by then is written by nobody who may still run:
//
//   - the launch's parameters lie in its own constant bank;
//   - works and page ids are copied from the host when the step is made, and NewStep
//     returns when they are there (Decode launches behind the copies, in their stream,
//     where an early start is early only of other kernels). They change only by Follow, of
//     steps with capacities. Those wait before they read anything at all, since any kernel
//     ahead may write their lengths, unless the lengths are settled: no launch starts
//     before Follow's copies, ahead of it in its stream, are there;
//   - what they ask to come to L2 they do not read. Who still writes it writes to L2.
//
// That memory was another step's before. L1 may still hold what was there, which no
// early start clears away: works and page ids are loaded past it. Queries, keys, values,
// scales, slopes, sinks and masks are read behind the wait, and partial states and counters
// after that: they are free when the launch ahead, of this step perhaps, has ended.
//
// Steps of one wave also ask for their first tiles while they wait.
func (s *Step) overlaps(c StepConfig, blocks int) {
	keys := 0 // of all KV heads
	for _, it := range c.Plan.Items {
		keys += it.End - it.Begin
	}
	bits := c.Shape.KeyDim*c.K.Type.Bits() + c.Shape.ValueDim*c.V.Type.Bits()
	s.overlap = s.b.overlap && keys <= overlapBytes/bits*8
	if s.overlap && (c.Capacity == nil || c.Settled) && blocks <= s.kernel.width && s.params.byWords == 0 {
		s.params.near = int32(s.kernel.stages) - 1
	}
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
		Overlap:     s.overlap,
	}
	begin := 0
	for _, end := range s.ends {
		if geometry.Grid.X = uint32(end - begin); end == begin {
			continue
		}
		if err := s.kernel.fn.Launch(stream, geometry, unsafe.Pointer(&p)); err != nil {
			return err
		}
		p.works += nv.Pointer((end - begin) * workBytes)
		if p.trace != 0 {
			p.trace += nv.Pointer((end - begin) * int(unsafe.Sizeof(blockStamps{})))
		}
		begin = end
	}
	return nil
}

// fits reports planes that the step's kernel would read wrongly. It wraps
// [ErrStale].
func (s *Step) fits(bufs Buffers) error {
	for _, x := range [...]struct {
		name      string
		got, made Plane
	}{{"keys", bufs.K, s.k}, {"values", bufs.V, s.v}} {
		got, made := x.got, x.made
		aligned := s.kernel.keyDim == 0 || s.params.byWords != 0 || got.Data%chunkBytes == 0
		got.Data, made.Data, got.Scales.Values, made.Scales.Values = 0, 0, 0, 0
		if got != made || !aligned {
			return fmt.Errorf("cuda: %w: the %s have another type, other strides or scales, or another alignment than it was made for", ErrStale, x.name)
		}
	}
	return nil
}

// Close frees the step's device memory once its launches are done.
func (s *Step) Close() error { return s.b.giveBack(s) }

func (s *Step) free() error {
	var err error
	for _, p := range s.memory {
		err = errors.Join(err, s.b.ctx.Free(p))
	}
	s.memory = nil
	runtime.KeepAlive(s)
	return err
}
