package plan

import "fmt"

// Check verifies that the items of each unit cover every key that it sees
// exactly once, in the order of their rows, and that no two units share a row of
// partial states. Plans from [New] pass; it is for tests, and for plans that
// came another way.
func (p *Plan) Check() error {
	offset, err := p.checkUnits()
	if err != nil {
		return err
	}
	placed := make([]*Item, offset[len(p.Units)])
	for i := range p.Items {
		it := &p.Items[i]
		split, err := p.split(it)
		if err != nil {
			return fmt.Errorf("plan: item %d: %w", i, err)
		}
		if placed[offset[it.Unit]+split] != nil {
			return fmt.Errorf("plan: item %d: unit %d has split %d twice", i, it.Unit, split)
		}
		placed[offset[it.Unit]+split] = it
	}
	for i := range p.Units {
		if err := p.Units[i].covered(placed[offset[i]:offset[i+1]]); err != nil {
			return fmt.Errorf("plan: unit %d: %w", i, err)
		}
	}
	return nil
}

// checkUnits checks the units' rows and returns where the splits of each begin
// when all are laid end to end: [len(Units)+1].
func (p *Plan) checkUnits() (offset []int, err error) {
	offset = make([]int, 1, len(p.Units)+1)
	rows := 0
	for i, u := range p.Units {
		want := Whole
		if u.NumSplits > 1 {
			want = rows
			rows += u.NumSplits * u.NumQueries * p.Config.GroupSize
		}
		if u.Row != want {
			return nil, fmt.Errorf("plan: unit %d has row %d, want %d", i, u.Row, want)
		}
		offset = append(offset, offset[i]+u.NumSplits)
	}
	if rows != p.Rows {
		return nil, fmt.Errorf("plan: %d rows, want %d", p.Rows, rows)
	}
	if n := offset[len(p.Units)]; n != len(p.Items) {
		return nil, fmt.Errorf("plan: %d items, want the %d splits of all units", len(p.Items), n)
	}
	return offset, nil
}

// split is which split of its unit an item is.
func (p *Plan) split(it *Item) (int, error) {
	if it.Unit < 0 || it.Unit >= len(p.Units) {
		return 0, fmt.Errorf("unit %d, want 0 to %d", it.Unit, len(p.Units)-1)
	}
	u := &p.Units[it.Unit]
	if it.Seq != u.Seq || it.Head != u.Head || it.Query != u.Query || it.NumQueries != u.NumQueries {
		return 0, fmt.Errorf("%+v is not of unit %+v", *it, *u)
	}
	if u.Row == Whole {
		if it.Row != Whole || u.NumSplits != 1 {
			return 0, fmt.Errorf("row %d in a unit of %d splits", it.Row, u.NumSplits)
		}
		return 0, nil
	}
	rows := u.NumQueries * p.Config.GroupSize
	split := (it.Row - u.Row) / rows
	if split < 0 || split >= u.NumSplits || it.Row != u.Row+split*rows {
		return 0, fmt.Errorf("row %d, want %d + a multiple of %d below %d", it.Row, u.Row, rows, u.NumSplits*rows)
	}
	return split, nil
}

// covered checks the borders of a unit's items, which are in order of split.
func (u *Unit) covered(items []*Item) error {
	end := u.Begin
	for i, it := range items {
		if it.Begin != end || it.End <= it.Begin {
			return fmt.Errorf("split %d is of keys [%d, %d), want from %d on and at least one", i, it.Begin, it.End, end)
		}
		end = it.End
	}
	if end != u.End {
		return fmt.Errorf("splits end at key %d, want %d", end, u.End)
	}
	return nil
}
