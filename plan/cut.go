package plan

import "github.com/flashdec/flashdec/attn"

// cut is a query tile of a sequence with the keys it sees and how they are cut.
// All KV heads share it, so that no head group is ever cut unlike another.
type cut struct {
	seq        int
	query      int // first query, counted within the sequence
	numQueries int
	rows       int // numQueries·GroupSize
	begin, end int // keys that any of the queries sees
	n          int // splits, at most one a step; 0 when no key is seen
	start      int // what starting an item costs, in keys
	step       int // borders are multiples of it, counted from begin
	items      int // of the cuts before it, in the plan
}

// keyTile is the step of borders: kernels load keys in tiles of this many or
// twice as many, and a border elsewhere would leave more of a tile idle. Steps
// of 64 would leave 8192 keys on 31 processors 21% uneven; these leave 9%.
const keyTile = 32

func (c *cut) keys() int { return c.end - c.begin }

// tiles is the number of query tiles of a sequence. It depends on that sequence
// alone.
func (cfg *Config) tiles(s Seq) int {
	if s.NumQueries == 0 {
		return 0
	}
	return ceil(s.NumQueries, cfg.queryTile(s))
}

func (cfg *Config) queryTile(s Seq) int {
	if cfg.QueryTile == 0 {
		return s.NumQueries
	}
	return min(cfg.QueryTile, s.NumQueries)
}

// cuts lists the query tiles of all sequences, in order, not yet split.
func (cfg *Config) cuts() []cut {
	n := 0
	for _, s := range cfg.Seqs {
		n += cfg.tiles(s)
	}
	cuts := make([]cut, 0, n)
	for i, s := range cfg.Seqs {
		for q := 0; q < s.NumQueries; q += cfg.queryTile(s) {
			m := min(cfg.queryTile(s), s.NumQueries-q)
			begin, end := cfg.span(s, q, q+m)
			cuts = append(cuts, cut{
				seq: i, query: q, numQueries: m, rows: m * cfg.GroupSize,
				begin: begin, end: end, start: cfg.startKeys(), step: keyTile,
			})
		}
	}
	return cuts
}

// span is the union of what the queries [q, last) see. Positions are
// consecutive and both ends of a span grow with them, so the union has no gap:
// it runs from the first query's first key to the last query's last.
func (cfg *Config) span(s Seq, q, last int) (begin, end int) {
	// A window of maxLen sees all; a wider one would overflow beside a query that
	// stands before the first key.
	rule := attn.Options{Causal: cfg.Causal, Window: min(cfg.Window, maxLen)}
	begin, _ = rule.Span(s.Len, s.NumQueries, q)
	_, end = rule.Span(s.Len, s.NumQueries, last-1)
	return begin, end
}

// border is where split i begins, and split i−1 ends. The keys are even to one
// step: with t steps, the first t mod n splits have ⌈t/n⌉, the others ⌊t/n⌋, and
// the last split ends with the last key.
func (c *cut) border(i int) int {
	t := ceil(c.keys(), c.step)
	steps := i*(t/c.n) + min(i, t%c.n)
	return c.begin + min(steps*c.step, c.keys())
}

func ceil(a, b int) int { return (a + b - 1) / b }
