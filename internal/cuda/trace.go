package cuda

import (
	"cmp"
	"fmt"
	"slices"
	"unsafe"

	"github.com/flashdec/flashdec/backend"
	"github.com/flashdec/flashdec/internal/nv"
	"github.com/flashdec/flashdec/plan"
)

// Points of a block's life: Mark of kernels/trace.cuh.
const (
	markStarted = iota
	markFirstTile
	markWalked
	markStored
	markBandArrived
	markBandGathered
	markBandStored
	markArrived
	markGathered
	markDone
	numMarks
)

// stamp is Stamp of kernels/trace.cuh.
type stamp struct {
	time           uint64 // nanoseconds of the GPU's clock
	cycles         uint32 // of the multiprocessor's
	multiprocessor uint32
}

// blockStamps are one block's. Of a mark that it did not pass, all is zero.
type blockStamps [numMarks]stamp

func (b *blockStamps) passed(mark int) bool { return b[mark].time != 0 }

// last is when the block passed its last mark.
func (b *blockStamps) last() (time uint64) {
	for i := range b {
		time = max(time, b[i].time)
	}
	return time
}

// tracedBlock is what a block of a traced step computes: a tile of query rows of an
// item, −1 for a unit without keys.
type tracedBlock struct{ item, tile int32 }

// blocks says what the layout's blocks compute, in their order.
func (l *layout) blocks(p *plan.Plan, rows int) []tracedBlock {
	type part struct{ unit, split int }
	items := make(map[part]int32, len(p.Items))
	for i, it := range p.Items {
		at := part{unit: it.Unit}
		if it.Row != plan.Whole {
			at.split = (it.Row - p.Units[it.Unit].Row) / (it.NumQueries * p.Config.GroupSize)
		}
		items[at] = int32(i)
	}
	var list []tracedBlock
	for _, w := range l.works {
		if w.begin == w.end {
			list = append(list, tracedBlock{item: -1})
			continue
		}
		unit := l.merges.unitOf(int(w.counter))
		list = append(list, tracedBlock{items[part{unit, int(w.split)}], w.row / int32(rows)})
	}
	return list
}

// makeTraceable takes room for the blocks' stamps.
func (s *Step) makeTraceable(l *layout, p *plan.Plan) error {
	s.traced = l.blocks(p, s.kernel.rows)
	return s.alloc(&s.params.trace, len(s.traced)*int(unsafe.Sizeof(blockStamps{})))
}

// clearTrace forgets the stamps of launches so far.
func (s *Step) clearTrace(stream *nv.Stream) error {
	if s.params.trace == 0 {
		return nil
	}
	return stream.Fill(s.params.trace, 0, len(s.traced)*int(unsafe.Sizeof(blockStamps{})))
}

// readTrace waits for the stream and turns the stamps of one launch into a trace.
func (s *Step) readTrace(stream *nv.Stream, t *backend.Trace, p *plan.Plan) error {
	stamps := make([]blockStamps, len(s.traced))
	if err := nv.Download(stream, stamps, s.params.trace); err != nil {
		return err
	}
	return record(t, p, s.traced, stamps, s.b.multiprocessors)
}

// record writes the trace of one launch. Times count from the start of the first
// block.
func record(t *backend.Trace, p *plan.Plan, blocks []tracedBlock, stamps []blockStamps, multiprocessors int) error {
	t.Reset(p, multiprocessors)
	if len(blocks) == 0 {
		return nil
	}
	r := recorder{trace: t, plan: p, start: stamps[0][markStarted].time}
	for i := range stamps {
		b := &stamps[i]
		if !b.passed(markStarted) || !b.passed(markStored) && !b.passed(markDone) || int(b[markStarted].multiprocessor) >= multiprocessors {
			return fmt.Errorf("cuda: block %d of %d of a traced launch left marks %v, want a start, and a partial state or a result, on one of %d multiprocessors", i, len(stamps), *b, multiprocessors)
		}
		r.start = min(r.start, b[markStarted].time)
	}
	slots, slot := slotsOf(stamps)
	t.Lanes, t.Slots = slots*multiprocessors, slots
	for i := range stamps {
		r.block(&stamps[i], blocks[i], int(stamps[i][markStarted].multiprocessor)*slots+slot[i])
	}
	return nil
}

// recorder turns marks into spans.
type recorder struct {
	trace *backend.Trace
	plan  *plan.Plan
	start uint64 // of the first block
}

// block records what a block did. An item lasts until its block has stored its partial
// state, or the result; a merge from the arrival of the last block that it waits for.
func (r *recorder) block(b *blockStamps, what tracedBlock, lane int) {
	r.trace.End = max(r.trace.End, int64(b.last()-r.start))
	if what.item < 0 {
		return
	}
	span := func(from, to int) backend.Span {
		return backend.Span{Lane: lane, Begin: int64(b[from].time - r.start), End: int64(b[to].time - r.start)}
	}
	item, end := int(what.item), markDone
	if b.passed(markStored) {
		end = markStored
	}
	r.put(&r.trace.Items[item], what, backend.Work{Span: span(markStarted, end), Kind: backend.Item, Index: item})
	unit := r.plan.Items[item].Unit
	if b.passed(markBandStored) {
		r.put(nil, what, backend.Work{Span: span(markBandArrived, markBandStored), Kind: backend.Merge, Index: unit})
	}
	if b.passed(markArrived) {
		r.put(&r.trace.Merges[unit], what, backend.Work{Span: span(markArrived, markDone), Kind: backend.Merge, Index: unit})
	}
}

// put places work of the first tile of rows where the trace has one for it, other work
// beside it.
func (r *recorder) put(at *backend.Span, what tracedBlock, w backend.Work) {
	if at != nil && what.tile == 0 {
		*at = w.Span
		return
	}
	r.trace.More = append(r.trace.More, w)
}

// slotsOf seats blocks that a multiprocessor ran at the same time side by side: how
// many seats it takes at most, and which each block has.
func slotsOf(stamps []blockStamps) (slots int, slot []int) {
	order := make([]int, len(stamps))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(stamps[a][markStarted].time, stamps[b][markStarted].time)
	})
	slot = make([]int, len(stamps))
	until := make(map[uint32][]uint64) // when each seat of a multiprocessor is free
	for _, i := range order {
		at := &stamps[i][markStarted]
		seats := until[at.multiprocessor]
		seat := slices.IndexFunc(seats, func(end uint64) bool { return end <= at.time })
		if seat < 0 {
			seat = len(seats)
			seats = append(seats, 0)
		}
		seats[seat] = stamps[i].last()
		until[at.multiprocessor] = seats
		slot[i] = seat
		slots = max(slots, len(seats))
	}
	return slots, slot
}
