package cuda

import (
	"slices"

	"github.com/flashdec/flashdec/kv"
)

// pageTables packs the needed entries of all page tables one after the other, with
// the room that their sequences' capacities ask for.
func pageTables(c StepConfig) ([]kv.PageID, []tableStart) {
	var pages []kv.PageID
	tables := make([]tableStart, len(c.Seqs))
	query := 0
	for i, t := range c.Seqs {
		tables[i] = tableStart{query: query, page: len(pages)}
		pages = append(pages, t.Pages[:tiles(t.Len, c.PageSize)]...)
		if c.Capacity != nil {
			pages = append(pages, make([]kv.PageID, tiles(c.Capacity[i], c.PageSize)-tiles(t.Len, c.PageSize))...)
		}
		query += c.Plan.Config.Seqs[i].NumQueries
	}
	return pages, tables
}

// remember keeps what a step of fixed lengths reads.
func (s *Step) remember(c StepConfig) {
	if c.Capacity != nil {
		return
	}
	for _, t := range c.Seqs {
		s.seqs = append(s.seqs, kv.Table{Len: t.Len, Pages: slices.Clone(t.Pages[:tiles(t.Len, c.PageSize)])})
	}
}
