package plan

import (
	"fmt"

	"github.com/flashdec/flashdec/attn"
)

// Check verifies that the plan is whole: that its units are those of its Config,
// that the items of each cover every key it sees exactly once, in the order of
// their rows, and that no two units share a row of partial states. Plans from
// [New] pass as long as nobody changes them; a backend need not look at what it
// reads of a plan that does. Check takes some nanoseconds an item, and allocates
// nothing. It wraps [attn.ErrShape] and [attn.ErrOption].
func (p *Plan) Check() error {
	if p == nil {
		return fmt.Errorf("plan: %w: the plan is nil", attn.ErrShape)
	}
	if err := p.Config.validate(); err != nil {
		return err
	}
	c := checker{plan: p}
	for i, s := range p.Config.Seqs {
		for q := 0; q < s.NumQueries; q += p.Config.queryTile(s) {
			if err := c.tile(i, q, min(p.Config.queryTile(s), s.NumQueries-q)); err != nil {
				return err
			}
		}
	}
	if c.units != len(p.Units) || c.items != len(p.Items) || c.rows != p.Rows {
		return fmt.Errorf("plan: %w: %d units, %d items and %d rows of partial states, want %d, %d and %d",
			attn.ErrShape, len(p.Units), len(p.Items), p.Rows, c.units, c.items, c.rows)
	}
	return nil
}

// checker walks a plan by unit and split, and counts what it has passed.
type checker struct {
	plan               *Plan
	units, items, rows int
}

// tile checks the units of a query tile, one a KV head.
func (c *checker) tile(seq, query, numQueries int) error {
	p := c.plan
	u := Unit{Seq: seq, Query: query, NumQueries: numQueries}
	u.Begin, u.End = p.Config.span(p.Config.Seqs[seq], query, query+numQueries)
	for u.Head = range p.Config.NumKVHeads {
		if c.units >= len(p.Units) {
			return fmt.Errorf("plan: %w: %d units, but there are more sequences, query tiles and KV heads", attn.ErrShape, len(p.Units))
		}
		if err := c.unit(u, &p.Units[c.units]); err != nil {
			return fmt.Errorf("plan: unit %d: %w", c.units, err)
		}
		c.units++
	}
	return nil
}

// unit checks a unit and its items. want lacks its splits and their rows.
func (c *checker) unit(want Unit, u *Unit) error {
	want.NumSplits, want.Row = u.NumSplits, Whole
	if n, left := u.NumSplits, len(c.plan.bySplit)-c.items; n < 0 || n > left {
		return fmt.Errorf("%w: %d splits, want 0 to the %d items left", attn.ErrShape, n, left)
	}
	rows := want.NumQueries * c.plan.Config.GroupSize
	if u.NumSplits > 1 {
		if rows > (maxRows-c.rows)/u.NumSplits {
			return fmt.Errorf("%w: %d splits of %d rows, want at most %d in all", attn.ErrShape, u.NumSplits, rows, maxRows)
		}
		want.Row = c.rows
		c.rows += u.NumSplits * rows
	}
	if !u.equals(&want) {
		return fmt.Errorf("%w: it is %+v, want %+v", attn.ErrShape, *u, want)
	}
	it := Item{Unit: c.units, Seq: u.Seq, Head: u.Head, Query: u.Query, NumQueries: u.NumQueries, End: u.Begin, Row: u.Row}
	for range u.NumSplits {
		if err := c.split(&it, u.End); err != nil {
			return err
		}
		if u.NumSplits > 1 {
			it.Row += rows
		}
	}
	if it.End != u.End {
		return fmt.Errorf("%w: its splits end at key %d, want %d", attn.ErrShape, it.End, u.End)
	}
	return nil
}

// split checks the item of a unit's next split. want is the one before it, but for
// its row.
func (c *checker) split(want *Item, end int) error {
	i := int(c.plan.bySplit[c.items])
	if i < 0 || i >= len(c.plan.Items) {
		return fmt.Errorf("%w: item %d is missing", attn.ErrShape, i)
	}
	it := &c.plan.Items[i]
	want.Begin, want.End = want.End, it.End
	if !it.equals(want) || it.End <= it.Begin || it.End > end {
		return fmt.Errorf("%w: item %d is %+v, want %+v, and at least one key that ends at %d or before", attn.ErrShape, i, *it, *want, end)
	}
	c.items++
	return nil
}

// equals is it == want, field by field: comparing whole structs right after
// writing one of them waits for the writes, three times as long.
func (it *Item) equals(want *Item) bool {
	return it.Unit == want.Unit && it.Seq == want.Seq && it.Head == want.Head && it.Query == want.Query &&
		it.NumQueries == want.NumQueries && it.Begin == want.Begin && it.End == want.End && it.Row == want.Row
}

// equals is u == want, as that of items.
func (u *Unit) equals(want *Unit) bool {
	return u.Seq == want.Seq && u.Head == want.Head && u.Query == want.Query && u.NumQueries == want.NumQueries &&
		u.Begin == want.Begin && u.End == want.End && u.NumSplits == want.NumSplits && u.Row == want.Row
}
