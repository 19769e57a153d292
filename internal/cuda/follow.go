package cuda

import (
	"errors"
	"fmt"
	"slices"

	"github.com/flashdec/flashdec/attn"
	"github.com/flashdec/flashdec/internal/nv"
	"github.com/flashdec/flashdec/kv"
	"github.com/flashdec/flashdec/plan"
)

// ErrStale: a step's plan does not fit what it is to run on.
var ErrStale = errors.New("the step's plan no longer fits")

// followable prepares works whose keys follow from lengths that lie on the device.
func (s *Step) followable(c StepConfig, l *layout) error {
	if c.Options.Mask != nil {
		return fmt.Errorf("cuda: %w: a mask with lengths that change, want none", attn.ErrOption)
	}
	if len(c.Capacity) != len(c.Seqs) {
		return fmt.Errorf("cuda: %w: capacities of %d sequences, want %d", attn.ErrShape, len(c.Capacity), len(c.Seqs))
	}
	lens := make([]int32, len(c.Seqs))
	for i, t := range c.Seqs {
		if t.Len > c.Capacity[i] {
			return fmt.Errorf("cuda: %w: sequence %d has %d keys, above its capacity of %d", attn.ErrShape, i, t.Len, c.Capacity[i])
		}
		lens[i] = int32(t.Len)
	}
	for i := range l.works {
		w := &l.works[i]
		w.pos -= int32(c.Seqs[w.seq].Len)
		w.page, w.capacity = -1, int32(c.Capacity[w.seq])
	}
	l.regular.step = splitStep(&c.Plan.Config)
	return errors.Join(put(s, &s.params.lens, lens), put(s, &s.lost, []int32{0}))
}

// splitStep is the multiple that package plan cuts at: forced splits at any key.
func splitStep(c *plan.Config) int32 {
	if c.NumSplits > 0 {
		return 1
	}
	return plan.LeastKeysPerSplit
}

// Follow brings new lengths and page tables to the device, after what is in the
// backend's stream. The error of what the step has no room for wraps [ErrStale],
// and nothing has changed then. It must run inside [Backend.Do].
func (s *Step) Follow(stream *nv.Stream, seqs []kv.Table, pageSize int) error {
	if s.capacity == nil {
		return s.unchanged(seqs, pageSize)
	}
	if len(seqs) != len(s.capacity) || pageSize != s.pageSize {
		return fmt.Errorf("cuda: %w: %d sequences on pages of %d, want %d on pages of %d", ErrStale, len(seqs), pageSize, len(s.capacity), s.pageSize)
	}
	lens := make([]int32, len(seqs))
	var pages []kv.PageID
	for i, t := range seqs {
		if t.Len > s.capacity[i] {
			return fmt.Errorf("cuda: %w: sequence %d has %d keys, above its capacity of %d", ErrStale, i, t.Len, s.capacity[i])
		}
		lens[i] = int32(t.Len)
		need, room := tiles(t.Len, pageSize), tiles(s.capacity[i], pageSize)
		pages = append(pages, t.Pages[:need]...)
		pages = append(pages, make([]kv.PageID, room-need)...)
	}
	return errors.Join(nv.Upload(stream, s.params.lens, lens), nv.Upload(stream, s.params.pages, pages))
}

// unchanged reports whether a step of fixed lengths would read the same pages.
func (s *Step) unchanged(seqs []kv.Table, pageSize int) error {
	same := len(seqs) == len(s.seqs) && pageSize == s.pageSize
	for i := 0; same && i < len(seqs); i++ {
		need := tiles(seqs[i].Len, pageSize)
		same = seqs[i].Len == s.seqs[i].Len && slices.Equal(seqs[i].Pages[:need], s.seqs[i].Pages)
	}
	if !same {
		return fmt.Errorf("cuda: %w: its sequences have changed, and it has no capacity to follow them", ErrStale)
	}
	return nil
}

// Lens is where the lengths lie, [sequences] int32: work on the device may change
// them. A length out of range makes the results of its sequence NaN, and [Step.Lost]
// tells of it.
func (s *Step) Lens() nv.Pointer { return s.params.lens }

// Lost waits for the stream and reports a sequence whose length was out of range in
// a launch since the last call. It wraps [ErrStale], and must run inside [Backend.Do].
func (s *Step) Lost(stream *nv.Stream) error {
	if s.lost == 0 {
		return stream.Synchronize()
	}
	seq := make([]int32, 1)
	if err := nv.Download(stream, seq, s.lost); err != nil || seq[0] == 0 {
		return err
	}
	i := int(seq[0] - 1)
	return errors.Join(
		fmt.Errorf("cuda: %w: sequence %d had a length out of 0 to its capacity of %d on the device", ErrStale, i, s.capacity[i]),
		stream.Fill32(s.lost, 0, 1),
	)
}
